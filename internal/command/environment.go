package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fromEnvironment gives flags that are not on the command line the values of variables named after the
// program and the flag, such as GLOBALFS_LOG_LEVEL for globalfs --log-level.
func fromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := strings.ToUpper(strings.ReplaceAll(cmd.Root().Name()+"_"+f.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if !ok || f.Changed || f.Name == "help" || f.Name == "version" || failed != nil {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			failed = InputError(fmt.Errorf("%s=%q: %w", name, value, err))
		}
	})
	return failed
}
