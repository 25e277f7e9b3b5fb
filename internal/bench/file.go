package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// FileConfig configures Files.
type FileConfig struct {
	Size       int64         // of the large file, in bytes
	Small      []int         // sizes of small files, in bytes
	Duration   time.Duration // for small files of each size, in each round
	Rounds     int
	Sync       bool         // fsync before close
	Contenders []*Contender // the first one is compared with each of the others
	Progress   func(string)
}

// Validate returns an error for an invalid configuration.
func (c *FileConfig) Validate() error {
	for _, size := range c.Small {
		if size < 0 || size > maxSmall {
			return fmt.Errorf("small files of %d bytes: give 0 to %d", size, maxSmall)
		}
	}
	switch {
	case c.Size < chunkSize || c.Size%chunkSize != 0:
		return fmt.Errorf("a file of %d bytes: give a multiple of %d", c.Size, chunkSize)
	case c.Duration <= 0:
		return fmt.Errorf("a duration of %v: give a positive one", c.Duration)
	case c.Rounds < 1:
		return fmt.Errorf("%d rounds: give at least 1", c.Rounds)
	}
	return nil
}

// Contender is a mounted file system.
type Contender struct {
	Name    string
	Dir     string // an empty directory on the mount
	Backing string // the directory with its bytes on the disk
	// Fresh mounts the file system again with empty caches. A cache of the file system gets room for at least
	// remember bytes; with 0 its usual size.
	Fresh func(remember int64) error
	// Through means that writes pass through this process. Then the kernel counts the bytes as written by the
	// program too, and this part is subtracted.
	Through bool

	made int // small files
}

// FileRow is the result of one measure for all contenders.
type FileRow struct {
	Measure    string `json:"measure"`
	Unit       string `json:"unit"` // of the rates: MiB or files
	Durability string `json:"durability"`
	Copies     int    `json:"copies"`
	Rates      []Rate `json:"rates"` // in the order of the contenders
}

// Rate is the result of one contender.
type Rate struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"per_second"`
	// CPU is the CPU time of the whole process for one MiB or file: of the program that writes or reads, and
	// of the file system with all its servers.
	CPU     float64 `json:"cpu_us"`
	Written float64 `json:"bytes_written"` // to the disk, for one byte of the file
	// Ratio is the rate of the first contender divided by this one, and DiskRatio the same for the bytes
	// written to the disk per second: medians over the rounds.
	Ratio     float64 `json:"ratio,omitempty"`
	DiskRatio float64 `json:"disk_ratio,omitempty"`
}

// sample is one round of one measure with one contender.
type sample struct {
	amount  float64 // MiB or files
	bytes   float64 // of the files
	elapsed time.Duration
	used    usage
}

func (s *sample) rate() float64     { return s.amount / s.elapsed.Seconds() }
func (s *sample) diskRate() float64 { return float64(s.used.written) / s.elapsed.Seconds() }

// Steps returns the number of calls of Progress.
func (c *FileConfig) Steps() int { return 1 + len(fileMeasures(c))*c.Rounds }

// Files measures file systems with the same files. In each round it makes each measure for one contender
// after the other. A first measurement, which is discarded, makes the kernel allocate its memory: on a
// virtual machine a page costs five times as much to fill at its first use.
func Files(ctx context.Context, cfg FileConfig) ([]FileRow, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	measures := fileMeasures(&cfg)
	samples := make([][][]sample, len(measures)) // by measure, contender and round
	for m := range samples {
		samples[m] = make([][]sample, len(cfg.Contenders))
	}
	cfg.Progress("warming up")
	for _, c := range cfg.Contenders {
		if _, err := measures[0].once(ctx, c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	for i := range cfg.Rounds {
		for m := range measures {
			cfg.Progress(fmt.Sprintf("%s (%d of %d)", measures[m].name, i+1, cfg.Rounds))
			for c, contender := range cfg.Contenders {
				s, err := measures[m].once(ctx, contender)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", measures[m].name, contender.Name, err)
				}
				samples[m][c] = append(samples[m][c], s)
			}
		}
	}
	var rows []FileRow
	for m := range measures {
		rows = append(rows, fileRow(&cfg, &measures[m], samples[m]))
	}
	return rows, nil
}

// once makes one round of a measure.
func (m *fileMeasure) once(ctx context.Context, c *Contender) (_ sample, err error) {
	act, err := m.prepare(ctx, c)
	if err != nil {
		return sample{}, err
	}
	before, err := used()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	amount, bytes, err := act()
	elapsed := time.Since(start)
	if ctx.Err() != nil {
		return sample{}, ctx.Err()
	}
	if err != nil {
		return sample{}, err
	}
	after, err := used()
	spent := after.since(before)
	if m.writes && c.Through {
		spent.written -= int64(bytes)
	}
	return sample{amount, bytes, elapsed, spent}, err
}

func fileRow(cfg *FileConfig, m *fileMeasure, samples [][]sample) FileRow {
	row := FileRow{Measure: m.name, Unit: m.unit, Durability: "os"}
	if cfg.Sync {
		row.Durability = "sync"
	}
	for c, rounds := range samples {
		var all sample
		for _, s := range rounds {
			all.amount += s.amount
			all.bytes += s.bytes
			all.elapsed += s.elapsed
			all.used = all.used.plus(s.used)
		}
		r := Rate{
			Name: cfg.Contenders[c].Name, PerSecond: all.rate(),
			CPU: microseconds(all.used.cpu) / all.amount, Written: float64(all.used.written) / max(1, all.bytes),
		}
		if c > 0 {
			r.Ratio = ratios(samples[0], rounds, (*sample).rate)
			if m.writes {
				r.DiskRatio = ratios(samples[0], rounds, (*sample).diskRate)
			}
		}
		row.Rates = append(row.Rates, r)
	}
	return row
}

// ratios returns the median over the rounds of the ratios of rates.
func ratios(first, other []sample, rate func(*sample) float64) float64 {
	var all []float64
	for i := range first {
		all = append(all, rate(&first[i])/max(1, rate(&other[i])))
	}
	return Median(all)
}

// remove deletes a file if it exists.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
