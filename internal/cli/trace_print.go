package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print prints a trace as a table.
func (r *traceReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s: %.0f us, %s\n\n", r.Op, r.TookUS, r.summary())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "at us\ttook us\tin\tstep")
	for _, e := range r.Events {
		where := e.Where
		if e.Partition != nil && where != "mount" {
			where = fmt.Sprintf("%s, partition %d", where, *e.Partition)
		}
		fmt.Fprintf(w, "%.0f\t%.0f\t%s\t%s\n", e.AtUS, e.TookUS, where, e.Step)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, s := range r.Servers {
		if s.Error != "" {
			fmt.Fprintf(out, "%s (%s): not recorded: %s\n", s.Server, s.Region, s.Error)
			continue
		}
		if s.WithinUS > 0 {
			fmt.Fprintf(out, "%s (%s): its times are exact to %.0f us\n", s.Server, s.Region, s.WithinUS)
		}
	}
	if r.Dropped > 0 {
		fmt.Fprintf(out, "%d events did not fit\n", r.Dropped)
	}
	return nil
}

// summary counts the steps.
func (r *traceReport) summary() string {
	requests, calls, commands := 0, 0, 0
	executed := map[string]float64{}
	for _, e := range r.Events {
		switch {
		case e.Where == "mount" && e.Thread != 0:
			requests++
		case e.Where == "mount":
			calls++
			commands += len(e.Commands)
		case e.Executes:
			executed[e.Where] = e.AtUS + e.TookUS
		}
	}
	text := []string{fmt.Sprintf("requests of the kernel: %d", requests), fmt.Sprintf("calls: %d", calls), fmt.Sprintf("ordered commands: %d", commands)}
	if len(executed) > 0 {
		last := 0.0
		for _, at := range executed {
			last = max(last, at)
		}
		text = append(text, fmt.Sprintf("executed by %d servers after %.0f us", len(executed), last))
	}
	return strings.Join(text, ", ")
}
