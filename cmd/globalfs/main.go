// Command globalfs is the one binary of GlobalFS: servers, mounts and tools.
package main

import (
	"os"

	"github.com/globalfs/globalfs/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
