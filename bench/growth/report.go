package growth

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/bench/results"
)

// Point has the figures of a number of files. Latencies are medians.
type Point struct {
	Files  int           `json:"files"`
	Store  int64         `json:"store_bytes"` // of one replica of the partition
	Start  time.Duration `json:"start_ns"`    // of the three servers, one after the other, until all replicas take part
	Stat   time.Duration `json:"stat_ns"`     // of a file that the mount has not seen
	Create time.Duration `json:"create_ns"`
	Rename time.Duration `json:"rename_ns"`
	Unlink time.Duration `json:"unlink_ns"`
	List   time.Duration `json:"list_ns"` // of the whole directory

	ServerMemory int64 `json:"server_bytes"` // resident, of the largest server after the operations
	MountMemory  int64 `json:"mount_bytes"`

	Fsck           time.Duration `json:"fsck_ns"` // of the running cluster
	Backup         time.Duration `json:"backup_ns"`
	NextBackup     time.Duration `json:"next_backup_ns"`      // to the same repository
	Transfer       time.Duration `json:"transfer_ns"`         // from the start of a server without data until all replicas have the same state
	ReceiverMemory int64         `json:"receiver_peak_bytes"` // of the server without data
	DonorMemory    int64         `json:"donor_peak_bytes"`    // of the other servers, since their start
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

// Report has the figures of a run.
type Report struct {
	Durability string  `json:"durability"`
	Directory  int     `json:"directory_files"`
	Operations int     `json:"operations"`
	Points     []Point `json:"points"`
	Open       *Open   `json:"open,omitempty"`
	Idle       *Idle   `json:"idle,omitempty"`
}

// WriteJSON writes one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func mib(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

// WriteTable writes the tables for people.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, `Three server processes with TLS, three replicas, durability %s, one mount. All files are empty; up to %d are in the one directory that the
operations use, and the others in directories of 1,000. Latencies are medians of %d operations. Memory is in MiB.

`, r.Durability, r.Directory, r.Operations)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "files\tstat ms\tcreate ms\trename ms\tunlink ms\tlist s\tstart s\tstore MiB\tserver\tmount\tfsck s\tbackup s\tnext s\ttransfer s\treceiver peak\tdonor peak\t")
	for _, p := range r.Points {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", p.Files, ms(p.Stat), ms(p.Create), ms(p.Rename), ms(p.Unlink),
			seconds(p.List), seconds(p.Start), mib(p.Store), mib(p.ServerMemory), mib(p.MountMemory), seconds(p.Fsck), seconds(p.Backup), seconds(p.NextBackup),
			seconds(p.Transfer), mib(p.ReceiverMemory), mib(p.DonorMemory))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if o := r.Open; o != nil {
		fmt.Fprintf(out, "\n%d open files of %d mounts: %s ms each (mean), a create beside them %s ms; the largest server has %s MiB, the first mount %s MiB.\n",
			o.Files, o.Mounts, ms(o.Each), ms(o.Create), mib(o.ServerMemory), mib(o.MountMemory))
	}
	if i := r.Idle; i != nil {
		fmt.Fprintf(out, "\n%d idle mounts: the busiest server takes %.1f%% of a processor with them, and %.1f%% without.\n", i.Mounts, 100*i.With, 100*i.Alone)
	}
	return nil
}

// WriteFiles writes growth.json and growth.txt.
func (r *Report) WriteFiles(dir string) error {
	return results.WriteFiles(dir, results.Both("growth", r))
}
