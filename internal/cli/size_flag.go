package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is the value of a flag that is a number of bytes, such as 512MiB.
type byteSize int64

// units of byteSize, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// String implements pflag.Value.
func (s *byteSize) String() string {
	for _, u := range units {
		if n := int64(*s); n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set implements pflag.Value.
func (s *byteSize) Set(text string) error {
	unit := int64(1)
	digits := text
	for _, u := range units {
		for _, name := range []string{u.name, u.name[:1], strings.ToLower(u.name[:1])} { // GiB, G, g
			if rest, ok := strings.CutSuffix(text, name); ok && unit == 1 {
				digits, unit = rest, u.bytes
			}
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("invalid size %q: use a number of bytes, or a number with K, M, G or T (powers of 1024), such as 512M", text)
	}
	*s = byteSize(n * unit)
	return nil
}

// Type implements pflag.Value.
func (s *byteSize) Type() string { return "size" }
