package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/globalfs/globalfs/internal/daemon"
)

// printStorage prints the blocks of the storage servers, the results of repair in the last round and since
// the start, and the results of scrub.
func printStorage(out io.Writer, servers []daemon.ServerHealth) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nSTORAGE\tSTATE\tBLOCKS\tLIVE\tDEAD\tMISSING COPIES\tLOST\tFETCHED\tHANDED BACK\tSCRUBBED\tCORRUPT: FIXED\tLEFT\t")
	var notes []string
	for i := range servers {
		s := servers[i].Storage
		if s == nil || s.Status == nil {
			fmt.Fprintf(w, "%s\t%s\t\t\t\t\t\t\t\t\t\t\t\n", servers[i].Name, servers[i].State)
			continue
		}
		repair, scrub := s.Status.Repair, s.Status.Scrub
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", s.Name, stateOf(s), s.Blocks, size(s.Bytes), size(s.DeadBytes),
			repair.Last.Missing, repair.Last.Lost, repair.Fetched, repair.HandedBack, scrub.Blocks, scrub.Fixed, scrub.Unfixed)
		if len(s.Down) > 0 {
			notes = append(notes, fmt.Sprintf("%s does not hear %s", s.Name, strings.Join(s.Down, ", ")))
		}
		if repair.Last.Error != "" {
			notes = append(notes, fmt.Sprintf("%s: repair is not complete: %s", s.Name, repair.Last.Error))
		}
	}
	err := w.Flush()
	for _, note := range notes {
		fmt.Fprintln(out, note)
	}
	return err
}

func stateOf(s *daemon.StorageServer) string {
	switch {
	case s.State != "":
		return s.State
	case s.Status.Repair.Last.FinishedAt.IsZero():
		return "starting" // the first check is not finished
	case !s.Status.Repair.Last.Complete:
		return "repairing"
	}
	return "ok"
}
