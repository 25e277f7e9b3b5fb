// Command globalfs runs all parts of GlobalFS, a geo-distributed POSIX file system: servers, mounts, and
// tools for operators. Package cli has its commands; 'globalfs help' and docs/commands.md describe them.
package main

import (
	"os"

	"github.com/globalfs/globalfs/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
