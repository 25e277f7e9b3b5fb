// Command globalfs-lab measures the atomic multicast of GlobalFS by itself and beside others. No user of a
// cluster needs it.
package main

import (
	"os"

	"github.com/globalfs/globalfs/bench/lab"
)

func main() { os.Exit(lab.Main(os.Args[1:], os.Stdout, os.Stderr)) }
