package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/internal/daemon"
)

// statusView is the text output of 'globalfs status'.
type statusView struct {
	storage bool // also the storage servers
	verbose bool // also effects of other problems, and the errors as the servers reported them
	colors  palette
}

// write prints one screen: the problems first.
func (v statusView) write(out io.Writer, h *daemon.Health) error {
	v.problems(out, h)
	err := printServers(out, h)
	if err == nil && v.verbose {
		printLinks(out, h.Servers)
		err = printOrders(out, h.Partitions)
	}
	if err == nil && v.storage {
		err = printStorage(out, h.Servers)
	}
	return err
}

// problems prints one line for each problem: the level, the code, and a sentence.
func (v statusView) problems(out io.Writer, h *daemon.Health) {
	word := v.colors.green("HEALTHY")
	if !h.Healthy {
		word = v.colors.red("NOT HEALTHY")
	}
	fmt.Fprintf(out, "cluster %s: %s\n", h.Cluster, word)
	hidden := 0
	for _, p := range h.Problems {
		if p.Effect() && !v.verbose {
			hidden++
			continue
		}
		fmt.Fprintf(out, "  %s %s\n", v.level(p.Level), p)
		if !v.verbose {
			continue
		}
		if len(p.CausedBy) > 0 {
			fmt.Fprintf(out, "         caused by %s\n", strings.Join(p.CausedBy, ", "))
		}
		for _, detail := range p.Details {
			fmt.Fprintf(out, "         %s\n", detail)
		}
	}
	for _, text := range h.Starting {
		fmt.Fprintf(out, "  %s starting: %s\n", v.level(daemon.LevelInfo), text)
	}
	if hidden > 0 {
		fmt.Fprintf(out, "  %s\n", v.colors.faint(fmt.Sprintf("consequences of these, not shown: %d; 'globalfs status --verbose' shows them", hidden)))
	}
}

// level returns a level in its colour, padded to a column.
func (v statusView) level(l daemon.Level) string {
	text := fmt.Sprintf("%-4s", l)
	switch l {
	case daemon.LevelErr:
		return v.colors.red(text)
	case daemon.LevelWarn:
		return v.colors.yellow(text)
	case daemon.LevelInfo:
	}
	return v.colors.faint(text)
}

// printServers prints the tables of servers and partitions.
func printServers(out io.Writer, h *daemon.Health) error {
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
		if p.State != "" {
			kind += ", " + p.State
		}
		data, dropped := "-", "-"
		if p.Data != nil {
			data, dropped = size(p.Data.Bytes), size(p.Data.DroppedBytes)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\t", p.ID, p.Path, kind, orDash(p.Leader), p.Applied, data, dropped)
		for _, r := range p.Replicas {
			switch {
			case r.Up:
				fmt.Fprintf(w, "%s (%d) ", r.Server, r.Lag)
			case r.State != "":
				fmt.Fprintf(w, "%s (%s) ", r.Server, r.State)
			default:
				fmt.Fprintf(w, "%s (down) ", r.Server)
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// printLinks prints how the servers are connected: tcp, or shm on one host.
func printLinks(out io.Writer, servers []daemon.ServerHealth) {
	for _, s := range servers {
		if len(s.Links) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nconnections to %s:", s.Name)
		for _, l := range s.Links {
			fmt.Fprintf(out, " %s (%s)", l.Peer, l.Fabric)
		}
		fmt.Fprintln(out)
	}
}

// printOrders prints the order of each partition, and for TRAM the one-sided memory of its replicas.
func printOrders(out io.Writer, partitions []daemon.PartitionHealth) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPARTITION\tORDER\tLEADER\tREPLICA\tMEMORY THROUGH\tSLOTS\tCREDITS\tREVOCATIONS")
	for _, p := range partitions {
		shown := false
		for _, r := range p.Replicas {
			if m := r.Memory; m != nil {
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d/%d\t%d/%d\t%d\n", p.ID, p.Order, orDash(p.Leader), r.Server,
					through(m.Fabrics), m.Used, m.Slots, m.Credits, m.Slots, m.Revocations)
				shown = true
			}
		}
		if !shown {
			fmt.Fprintf(w, "%d\t%s\t%s\t-\t-\t-\t-\t-\n", p.ID, p.Order, orDash(p.Leader))
		}
	}
	return w.Flush()
}

// through lists the kinds of the connections to other replicas.
func through(fabrics map[string]string) string {
	var all []string
	for _, server := range slices.Sorted(maps.Keys(fabrics)) {
		all = append(all, fmt.Sprintf("%s (%s)", server, fabrics[server]))
	}
	return orDash(strings.Join(all, " "))
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
