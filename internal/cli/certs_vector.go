package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/identity"
)

func newCertsRotateVectorKey() *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:   "rotate-vector-key",
		Short: "Replace the key with which servers check the proofs of clients",
		Long: `rotate-vector-key makes a new vector key, and writes it to the key files of all servers in DIR. Copy these files to their hosts. Servers use
them within seconds.

With a vector key, a server proves to other servers the state that a client has read, so that no client can claim more. The previous key
stays valid: you can copy the files one after the other, and mounts notice nothing. If somebody may have read the key file of a
server, rotate the key and make a new certificate for that server.`,
		Example: `  globalfs certs rotate-vector-key
  globalfs certs rotate-vector-key --dir /root/globalfs-certs -o json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			servers, err := identity.RotateVectorKeys(dir)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("the CA's key is not in %s: give its directory with --dir: %w", dir, err)
			} else if err != nil {
				return err
			}
			return printRotation(cmd, output, dir, servers)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "directory of the certificates")
	outputFlag(cmd, &output)
	return cmd
}

// printRotation prints the files to copy.
func printRotation(cmd *cobra.Command, output, dir string, servers []string) error {
	files := []string{}
	for _, name := range servers {
		files = append(files, identity.FilesIn(dir, identity.Server, name).Key)
	}
	if output == "json" {
		return command.PrintJSON(cmd.OutOrStdout(), struct {
			Files []string `json:"files"`
		}{files})
	}
	for _, file := range files {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: new vector key; copy the file to its host\n", file); err != nil {
			return err
		}
	}
	return nil
}
