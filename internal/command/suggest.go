package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Suggest returns a question with the known words that are spelt almost like word, such as ", did you mean
// eu-west-1?": at most two letters differ, and at least one is equal. It is empty if there are none.
func Suggest(word string, known []string) string {
	if word == "" {
		return "" // every name begins with it
	}
	// Cobra compares words with the names of subcommands only.
	dictionary := &cobra.Command{SuggestionsMinimumDistance: min(2, len(word)-1)}
	for _, k := range known {
		dictionary.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	similar := dictionary.SuggestionsFor(word)
	if len(similar) == 0 {
		return ""
	}
	last := len(similar) - 1
	if last > 0 {
		similar = []string{strings.Join(similar[:last], ", "), similar[last]}
	}
	return ", did you mean " + strings.Join(similar, " or ") + "?"
}

// choices is the annotation of a flag with its known values.
const choices = "globalfs_choices"

// Choice gives a flag a few known values: the shell completes them, and other values are refused before the
// command runs.
func Choice(cmd *cobra.Command, flags *pflag.FlagSet, name string, known ...string) {
	// Both fail only for a flag that does not exist, or a second time.
	_ = flags.SetAnnotation(name, choices, known)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

// CheckChoices refuses unknown values of flags. Programs made by Prepare call it by themselves.
func CheckChoices(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		known, is := f.Annotations[choices]
		if !is || err != nil {
			return
		}
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, v := range values {
			if !slices.Contains(known, v) && err == nil {
				err = InputError(fmt.Errorf("--%s %q: give %s%s", f.Name, v, orList(known), Suggest(v, known)))
			}
		}
	})
	return err
}

// orList returns "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

var (
	errNoNumber = errors.New("not a number that this flag takes") // of a flag that takes a number
	errNoPair   = errors.New("not of the form NAME=VALUE")        // of a flag that takes pairs
)

// invalidValue returns the reason why a flag refuses a value, without the flag and the value.
func invalidValue(err error) error {
	var number *strconv.NumError
	if errors.As(err, &number) {
		return errNoNumber
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalid.Unwrap()
	}
	return err
}

// refuseFlag explains the error of a command line that does not parse.
func refuseFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		reason := invalidValue(err)
		if invalid.GetFlag().Value.Type() == "stringToString" {
			reason = errNoPair
		}
		err = fmt.Errorf("--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), reason)
	}
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		hint = Suggest("--"+unknown.GetSpecifiedName(), names)
		if unknown.GetSpecifiedName() == "json" && cmd.Flags().Lookup("output") != nil {
			hint = ": give --output json"
		}
	}
	return UsageError(fmt.Errorf("%w%s; see '%s --help'", err, hint, cmd.CommandPath()))
}
