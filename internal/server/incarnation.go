package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/internal/durable"
)

// nextIncarnation counts the starts of a server in a file. It is durable before
// anything is said under its number: peers tell a restarted process by it, and message
// ids of different starts differ by it.
func nextIncarnation(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var last uint64
	if err == nil {
		if last, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31); err != nil {
			return 0, fmt.Errorf("%s does not hold a number: %w; restore it with one higher than it ever held", path, err)
		}
	}
	return last + 1, durable.WriteFile(path, fmt.Appendf(nil, "%d\n", last+1))
}
