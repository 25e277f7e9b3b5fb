package command

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// duration implements pflag.Value for DurationVar.
type duration time.Duration

// DurationVar adds a flag such as 30s or 1m30s. A number without a unit means seconds, as in mount options.
func DurationVar(flags *pflag.FlagSet, into *time.Duration, name string, value time.Duration, usage string) {
	*into = value
	flags.Var((*duration)(into), name, usage)
}

// String implements pflag.Value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds < 1e9 {
		*d = duration(seconds * float64(time.Second))
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("invalid duration %q: use a number of seconds, or a unit, as in 30s, 1m30s, 2h", text)
	}
	*d = duration(parsed)
	return nil
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }
