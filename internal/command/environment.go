package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fromEnvironment sets flags that are not on the command line to the values of environment variables. Their
// names are made of the program and the flag, such as GLOBALFS_LOG_LEVEL for globalfs --log-level.
func fromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := Variable(cmd.Root(), f.Name)
		value, ok := os.LookupEnv(name)
		if !ok || f.Changed || f.Name == "help" || f.Name == "version" || failed != nil {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			failed = InputError(fmt.Errorf("%s=%q: %w", name, value, invalidValue(err)))
		}
	})
	return failed
}

// Variable returns the name of the environment variable that sets a flag of a program.
func Variable(root *cobra.Command, flag string) string {
	return strings.ToUpper(strings.ReplaceAll(root.Name()+"_"+flag, "-", "_"))
}
