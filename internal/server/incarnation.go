package server

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/internal/durable"
)

const incarnationFile = "incarnation"

// nextIncarnation counts the starts of a server in a file, and returns the number of this start. The number
// is durable before the first message that has it. Peers detect a restarted process by it, and it makes the
// message ids of different starts distinct.
func nextIncarnation(path string) (uint64, error) {
	last, err := lastIncarnation(path)
	if err != nil {
		return 0, err
	}
	return last + 1, durable.WriteCopied(path, fmt.Appendf(nil, "%d\n", last+1))
}

// lastIncarnation returns the number of the last start; 0 if there is no file.
func lastIncarnation(path string) (uint64, error) {
	text, err := durable.ReadCopied(path, incarnationOf)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil {
		return incarnationOf(text)
	}
	if _, bad := incarnationOf(text); text != nil && bad != nil {
		return 0, fmt.Errorf("%s does not hold a number: %w; restore it with one higher than it ever held", path, bad)
	}
	return 0, err
}

func incarnationOf(text []byte) (uint64, error) {
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
}
