package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// failure is an error for programs.
type failure struct {
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// PrintError prints the error of the command that args name: in JSON if the result is requested in JSON.
func PrintError(stderr io.Writer, root *cobra.Command, args []string, err error) {
	text := errorText(err)
	if ExitCode(err) == ExitUsage {
		text = withHelp(text, root, args)
	}
	if wantsJSON(root, args) {
		_ = PrintJSON(stderr, failure{text, ExitCode(err)}) // there is no other place to report to
		return
	}
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), text)
}

// withHelp adds the help of the command that args name to the text of a usage error. It removes the name of
// the program from the front of the text: that name is printed before each error.
func withHelp(text string, root *cobra.Command, args []string) string {
	text = strings.TrimPrefix(text, root.Name()+" ")
	if strings.Contains(text, " --help'") {
		return text
	}
	cmd, _, err := root.Find(args)
	if err != nil {
		cmd = root
	}
	return text + "; see '" + cmd.CommandPath() + " --help'"
}

// errorText returns the text of an error for users. Contexts of commands are canceled by Ctrl-C only.
func errorText(err error) string {
	return strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted")
}

// wantsJSON reports whether the flag --output of a command is json. The command line may not be parsed to its
// end.
func wantsJSON(root *cobra.Command, args []string) bool {
	cmd, _, err := root.Find(args)
	if err != nil {
		return false
	}
	flag := cmd.Flags().Lookup("output")
	if flag == nil {
		return false
	}
	if flag.Value.String() == "json" {
		return true
	}
	for i, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		if !assigned && i+1 < len(args) {
			value = args[i+1]
		}
		if value == "json" && (name == "--output" || flag.Shorthand != "" && name == "-"+flag.Shorthand) {
			return true
		}
	}
	return false
}
