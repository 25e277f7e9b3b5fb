package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/internal/daemon"
)

// printHealth prints one screen: what is wrong first.
func printHealth(out io.Writer, h *daemon.Health) error {
	word := "HEALTHY"
	if len(h.Problems) > 0 {
		word = "NOT HEALTHY"
	}
	fmt.Fprintf(out, "cluster %s: %s\n", h.Cluster, word)
	for _, p := range h.Problems {
		fmt.Fprintf(out, "  %s\n", p)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSERVER\tREGION\tADDRESS\tSTATE\tUP\tREPLICAS\tLEADS\tBLOCKS\tLIVE\tREPAIR")
	for _, s := range h.Servers {
		if s.State == "down" {
			fmt.Fprintf(w, "%s\t%s\t%s\tdown\t-\t-\t-\t-\t-\t-\n", s.Name, s.Region, s.Address)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v\t%d\t%d\t", s.Name, s.Region, s.Address, s.State, time.Duration(s.UpFor)*time.Second, s.Replicas, s.Leads)
		printStorageOf(w, s.Storage)
	}
	fmt.Fprintln(w, "\nPARTITION\tPATH\tKIND\tLEADER\tAPPLIED\tDATA\tTO COLLECT\tREPLICAS (behind)")
	for _, p := range h.Partitions {
		kind := "local"
		if p.Region == "" {
			kind = "global"
		}
		data, dropped := "-", "-"
		if p.Data != nil {
			data, dropped = size(p.Data.Bytes), size(p.Data.DroppedBytes)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\t", p.ID, p.Path, kind, orDash(p.Leader), p.Applied, data, dropped)
		for _, r := range p.Replicas {
			if r.Up {
				fmt.Fprintf(w, "%s (%d) ", r.Server, r.Lag)
			} else {
				fmt.Fprintf(w, "%s (down) ", r.Server)
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func printStorageOf(w io.Writer, s *daemon.StorageServer) {
	if s == nil || s.Status == nil {
		fmt.Fprintln(w, "-\t-\t-")
		return
	}
	fmt.Fprintf(w, "%d\t%s\t%s\n", s.Blocks, size(s.Bytes), stateOf(s))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
