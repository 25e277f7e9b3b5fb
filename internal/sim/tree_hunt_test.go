package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var huntFrom = flag.Uint64("hunt.from", 0, "")
var huntLines = flag.Int("hunt.lines", 1, "")
var huntIno = flag.Uint64("hunt.ino", 0, "")
var huntLin = flag.Bool("hunt.lin", false, "")

func TestHunt(t *testing.T) {
	if *huntFrom == 0 {
		t.Skip()
	}
	reach := treeReach{}
	bad := 0
	for seed := *huntFrom; seed < *huntFrom+*seedCount; seed++ {
		var run *tree
		err := guarded(seed, func(s uint64) error { run = treeRun(s, *huntLin); return run.judge(reach) })
		if *huntIno != 0 {
			for _, e := range run.history.events {
				if u := e.change; u != nil && e.kind == learns && (uint64(u.command.Ino) == *huntIno || uint64(u.command.Child) == *huntIno || uint64(u.command.NewChild) == *huntIno || uint64(u.result.Attr.Ino) == *huntIno) {
					fmt.Printf("%d client %d %v first %d issued %d\n", e.clock, e.client, u, u.first(), u.issued)
				}
				if e.kind == reads && uint64(e.command.Ino) == *huntIno {
					fmt.Printf("%d client %d op %d at %d/%d: %v %d\n", e.clock, e.client, e.command.Op, e.partition, e.count, e.result.Code, e.result.Number)
				}
			}
		}
		if err != nil {
			bad++
			text := err.Error()
			lines := strings.Split(text, "\n")
			fmt.Printf("SEED %d: %s\n", seed, strings.Join(lines[:min(len(lines), *huntLines)], " | "))
		}
	}
	for _, m := range treeMarks {
		fmt.Printf("%6d %s\n", reach[m], m)
	}
	fmt.Println("BAD", bad)
}
