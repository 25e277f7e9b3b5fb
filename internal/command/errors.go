package command

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes, equal to those of etcdctl where it has one. A command can have others, see StatusError.
const (
	ExitOK      = 0
	ExitFailure = 1   // the command could not do its work
	ExitInput   = 3   // the value of a flag or in a file is invalid
	ExitUsage   = 128 // unknown command or flag, or a wrong number of arguments
)

// coded is an error with the exit code of the program.
type coded struct {
	error
	code int
}

func (e coded) Unwrap() error { return e.error }

// InputError marks an error of a value that the user gave.
func InputError(err error) error { return coded{err, ExitInput} }

// UsageError marks a command line that does not parse.
func UsageError(err error) error { return coded{err, ExitUsage} }

// StatusError sets an exit code that is specific to one command.
func StatusError(err error, code int) error { return coded{err, code} }

// ExitCode returns the exit code of the program after a command returned err.
func ExitCode(err error) int {
	var e coded
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.code
	}
	return ExitFailure
}

// Interrupted adds the interrupt to the error of a measurement that failed after the end of ctx.
func Interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted, there is no result: %w", err)
	}
	return err
}
