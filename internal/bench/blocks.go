package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/internal/block"
)

// storageNodes is the number of servers of the region that Blocks measures, as in the thesis (T 3.6). Each is
// in its own datacenter.
const storageNodes = 5

// BlocksConfig configures Blocks.
type BlocksConfig struct {
	Dir      string // an empty directory; its later content is useless
	Sizes    []int  // of blocks, in bytes
	Copies   []int  // of each block
	Clients  int    // each in a closed loop
	Duration time.Duration
	Rounds   int  // the number of parts of Duration
	GRPC     bool // the servers communicate over loopback TCP instead of queues in memory
	Sync     bool // stored blocks, and writes to plain files, survive a loss of power
	Progress func(string)
}

// Validate returns an error for an invalid configuration.
func (c *BlocksConfig) Validate() error {
	for _, size := range c.Sizes {
		if size < 1 || size > block.MaxSize {
			return fmt.Errorf("blocks of %d bytes: give 1 to %d", size, block.MaxSize)
		}
	}
	for _, copies := range c.Copies {
		if copies < 1 || copies > storageNodes {
			return fmt.Errorf("%d copies on %d servers: give 1 to %d", copies, storageNodes, storageNodes)
		}
	}
	switch {
	case c.Clients < 1:
		return fmt.Errorf("%d clients: give at least 1", c.Clients)
	case c.Duration <= 0:
		return fmt.Errorf("a duration of %v: give a positive one", c.Duration)
	case c.Rounds < 1:
		return fmt.Errorf("%d rounds: give at least 1", c.Rounds)
	}
	return nil
}

// BlocksRow is the result of one operation on blocks of one size and number of copies, and of the same on
// plain files.
type BlocksRow struct {
	Operation  string `json:"operation"` // put or get
	Size       int    `json:"size"`
	Copies     int    `json:"copies"`
	Clients    int    `json:"clients"`
	Transport  string `json:"transport"`
	Durability string `json:"durability"`
	Blocks     Cost   `json:"blocks"`
	Plain      Cost   `json:"plain_files"`
	// Ratio is the ratio of the rates, blocks to plain files: the median over the rounds.
	Ratio float64 `json:"ratio"`
	// Thesis is the rate of five machines in T 3.6, 0 if the thesis has none.
	Thesis float64 `json:"thesis_operations_per_second,omitempty"`
}

// thesisRates are the rates in T 3.6, with two copies.
var thesisRates = map[string]float64{"put 1024": 8000, "get 32768": 6500}

// Blocks measures puts and gets of a region of five storage servers in this process. For comparison, it
// writes the same number of copies of the same bytes to plain files and reads them, in the same directory and
// with the same durability. The two take turns.
func Blocks(ctx context.Context, cfg BlocksConfig) ([]BlocksRow, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var rows []BlocksRow
	for _, copies := range cfg.Copies {
		for _, size := range cfg.Sizes {
			dir := filepath.Join(cfg.Dir, fmt.Sprintf("%d-%d", copies, size))
			more, err := blocksPoint(ctx, &cfg, dir, size, copies)
			if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
				return rows, fmt.Errorf("blocks of %d bytes, %d copies: %w", size, copies, err)
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// blocksPoint measures one size and number of copies, on empty disks. Each round gets the blocks that it has
// put.
func blocksPoint(ctx context.Context, cfg *BlocksConfig, dir string, size, copies int) (rows []BlocksRow, err error) {
	region, err := startRegion(cfg, filepath.Join(dir, "region"), copies)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, region.close()) }()
	plain, err := openPlain(filepath.Join(dir, "plain"), cfg.Clients, copies, cfg.Sync)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plain.close()) }()
	bytes := newPayload(size)
	work := []struct {
		ours, other func(client, n int) error
	}{
		{
			func(c, n int) error { return region.put(ctx, c, bytes.piece(c, n)) },
			func(c, n int) error { return plain.write(c, bytes.piece(c, n)) },
		},
		{
			func(c, n int) error { return region.get(ctx, c, size) },
			func(c, n int) error { return plain.read(c, size) },
		},
	}
	var ours, other [2][]round
	slice := cfg.Duration / time.Duration(cfg.Rounds)
	for i := range cfg.Rounds {
		cfg.Progress(fmt.Sprintf("%d bytes, %d copies: puts and gets (%d of %d)", size, copies, i+1, cfg.Rounds))
		if err := forget(dir); err != nil {
			return nil, err
		}
		region.begin()
		plain.begin()
		for w := range work {
			o, err := measureRound(ctx, cfg.Clients, slice, work[w].ours)
			if err != nil {
				return nil, err
			}
			p, err := measureRound(ctx, cfg.Clients, slice, work[w].other)
			if err != nil {
				return nil, fmt.Errorf("plain files: %w", err)
			}
			ours[w], other[w] = append(ours[w], o), append(other[w], p)
		}
	}
	for w, operation := range []string{"put", "get"} {
		row := BlocksRow{
			Operation: operation, Size: size, Copies: copies, Clients: cfg.Clients, Transport: "inprocess", Durability: "os",
			Blocks: cost(ours[w]), Plain: cost(other[w]), Ratio: rateRatio(ours[w], other[w]),
		}
		if cfg.GRPC {
			row.Transport = "grpc"
		}
		if cfg.Sync {
			row.Durability = "sync"
		}
		if copies == 2 {
			row.Thesis = thesisRates[fmt.Sprintf("%s %d", operation, size)]
		}
		rows = append(rows, row)
	}
	return rows, nil
}
