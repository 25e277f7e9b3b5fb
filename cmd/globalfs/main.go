// Command globalfs is GlobalFS: servers, mounts and tools in one binary.
package main

import (
	"os"

	"github.com/globalfs/globalfs/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
