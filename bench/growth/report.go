package growth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/bench/results"
)

// Point has the figures of a number of files. Latencies are medians. The processor time of an operation is
// that of all servers and of the mount.
type Point struct {
	Files     int           `json:"files"`
	Store     int64         `json:"store_bytes,omitzero"` // of one replica of the partition
	Start     time.Duration `json:"start_ns,omitzero"`    // of the three servers, one after the other, until all replicas take part
	Rest      time.Duration `json:"rest_ns,omitzero"`     // from then on, until the servers have read their stores in the background
	Stat      time.Duration `json:"stat_ns,omitzero"`     // of a file that the mount has not seen
	StatCPU   time.Duration `json:"stat_cpu_ns,omitzero"`
	Create    time.Duration `json:"create_ns,omitzero"`
	CreateCPU time.Duration `json:"create_cpu_ns,omitzero"`
	Rename    time.Duration `json:"rename_ns,omitzero"`
	RenameCPU time.Duration `json:"rename_cpu_ns,omitzero"`
	Unlink    time.Duration `json:"unlink_ns,omitzero"`
	UnlinkCPU time.Duration `json:"unlink_cpu_ns,omitzero"`
	List      time.Duration `json:"list_ns,omitzero"` // of the whole directory

	ServerMemory int64 `json:"server_bytes,omitzero"` // resident, of the largest server after the operations
	MountMemory  int64 `json:"mount_bytes,omitzero"`

	Fsck           time.Duration `json:"fsck_ns,omitzero"`         // of the running cluster
	FsckMemory     int64         `json:"fsck_peak_bytes,omitzero"` // of the mount that runs it
	Backup         time.Duration `json:"backup_ns,omitzero"`
	NextBackup     time.Duration `json:"next_backup_ns,omitzero"`      // to the same repository
	Transfer       time.Duration `json:"transfer_ns,omitzero"`         // from the start of a server without data until all replicas have the same state
	ReceiverMemory int64         `json:"receiver_peak_bytes,omitzero"` // of the server without data
	DonorMemory    int64         `json:"donor_peak_bytes,omitzero"`    // of the other servers, since their start
}

// Open has the figures of many open files.
type Open struct {
	Files        int           `json:"files"`
	Mounts       int           `json:"mounts"`
	Each         time.Duration `json:"open_ns"`   // mean
	Create       time.Duration `json:"create_ns"` // of another file beside the open ones
	ServerMemory int64         `json:"server_bytes"`
	MountMemory  int64         `json:"mount_bytes"`
}

// Idle has the figures of idle mounts: the part of a processor that the busiest server takes.
type Idle struct {
	Mounts int     `json:"mounts"`
	Alone  float64 `json:"alone"` // without them
	With   float64 `json:"with"`
}

// Sessions has the figures of idle sessions of the client library, each with an open file: the part of a
// processor that the busiest server takes, and the memory of the largest server.
type Sessions struct {
	Sessions    int           `json:"sessions"`
	Each        time.Duration `json:"open_ns"`   // mean, of the connection and the creation of the file
	Create      time.Duration `json:"create_ns"` // by one of them after the other, median
	Alone       float64       `json:"alone"`
	With        float64       `json:"with"`
	MemoryAlone int64         `json:"server_bytes_alone"`
	Memory      int64         `json:"server_bytes"`
	Process     int64         `json:"process_bytes"` // of the process with all sessions
}

// Report has the figures of a run.
type Report struct {
	Durability string    `json:"durability"`
	Directory  int       `json:"directory_files"`
	Operations int       `json:"operations"`
	Points     []Point   `json:"points"`
	Open       *Open     `json:"open,omitempty"`
	Idle       *Idle     `json:"idle,omitempty"`
	Sessions   *Sessions `json:"sessions,omitempty"`
}

// Add adds the figures of an earlier run with the same settings, as WriteJSON has written them. The
// figures of this run replace them.
func (r *Report) Add(earlier []byte) error {
	all := Report{}
	if err := json.Unmarshal(earlier, &all); err != nil {
		return fmt.Errorf("the report of an earlier run: %w", err)
	}
	if all.Durability != r.Durability || all.Directory != r.Directory || all.Operations != r.Operations {
		return fmt.Errorf("an earlier run has other settings: durability %s, %d files in the directory, %d operations",
			all.Durability, all.Directory, all.Operations)
	}
	points := r.Points
	r.Points = nil
	now, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for _, p := range points {
		at, has := slices.BinarySearchFunc(all.Points, p.Files, func(q Point, files int) int { return q.Files - files })
		if !has {
			all.Points = slices.Insert(all.Points, at, Point{})
		}
		figures, err := json.Marshal(p) // only those that were measured
		if err = errors.Join(err, json.Unmarshal(figures, &all.Points[at])); err != nil {
			return err
		}
	}
	points = all.Points
	err = json.Unmarshal(now, &all)
	*r, r.Points = all, points
	return err
}

// WriteJSON writes one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func mib(bytes int64) string { return figure("%.1f", float64(bytes)/(1<<20)) }

func ms(d time.Duration) string { return figure("%.2f", float64(d)/float64(time.Millisecond)) }

func seconds(d time.Duration) string { return figure("%.1f", d.Seconds()) }

// figure formats a figure; 0: it was not measured.
func figure(format string, f float64) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf(format, f)
}

// WriteTable writes the tables for people.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, `Three server processes with TLS, three replicas, durability %s, one mount. All files are empty; up to %d are in the one directory that the
operations use, and the others in directories of 1,000. Latencies are medians of %d operations. CPU is the processor time of an operation in all servers
and the mount, in ms. Memory is in MiB.

`, r.Durability, r.Directory, r.Operations)
	if err := table(out, "files\tstat ms\tCPU\tcreate ms\tCPU\trename ms\tCPU\tunlink ms\tCPU\tlist s", r.Points, func(p *Point) []string {
		return []string{ms(p.Stat), ms(p.StatCPU), ms(p.Create), ms(p.CreateCPU), ms(p.Rename), ms(p.RenameCPU), ms(p.Unlink), ms(p.UnlinkCPU), seconds(p.List)}
	}); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := table(out, "files\tstore MiB\tserver\tmount\tstart s\trest s\tfsck s\tpeak\tbackup s\tnext s\ttransfer s\treceiver peak\tdonor peak", r.Points, func(p *Point) []string {
		return []string{
			mib(p.Store), mib(p.ServerMemory), mib(p.MountMemory), seconds(p.Start), seconds(p.Rest), seconds(p.Fsck), mib(p.FsckMemory),
			seconds(p.Backup), seconds(p.NextBackup), seconds(p.Transfer), mib(p.ReceiverMemory), mib(p.DonorMemory),
		}
	}); err != nil {
		return err
	}
	if o := r.Open; o != nil {
		fmt.Fprintf(out, "\n%d open files of %d mounts: %s ms each (mean), a create beside them %s ms; the largest server has %s MiB, the first mount %s MiB.\n",
			o.Files, o.Mounts, ms(o.Each), ms(o.Create), mib(o.ServerMemory), mib(o.MountMemory))
	}
	if i := r.Idle; i != nil {
		fmt.Fprintf(out, "\n%d idle mounts: the busiest server takes %.1f%% of a processor with them, and %.1f%% without.\n", i.Mounts, 100*i.With, 100*i.Alone)
	}
	if x := r.Sessions; x != nil {
		fmt.Fprintf(out, `
%d idle sessions of the client library, each with an open file: %s ms each to connect and create the file (mean), a create by one of them %s ms.
The busiest server takes %.1f%% of a processor with them, and %.1f%% without; the largest has %s MiB, and %s without. The process with the sessions has %s MiB.
`, x.Sessions, ms(x.Each), ms(x.Create), 100*x.With, 100*x.Alone, mib(x.Memory), mib(x.MemoryAlone), mib(x.Process))
	}
	return nil
}

// table writes a table with a row for each point. A figure that was not measured is "-".
func table(out io.Writer, head string, points []Point, row func(*Point) []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\t\n", head)
	for i := range points {
		fmt.Fprintf(w, "%d\t%s\t\n", points[i].Files, strings.Join(row(&points[i]), "\t"))
	}
	return w.Flush()
}

// WriteFiles writes growth.json and growth.txt.
func (r *Report) WriteFiles(dir string) error {
	return results.WriteFiles(dir, results.Both("growth", r))
}
