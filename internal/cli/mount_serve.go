package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/topology"
)

// serve mounts, and serves until ctx ends, the mount is unmounted or another process takes over.
func (f *mountFlags) serve(ctx context.Context, servers []string, dir string, out io.Writer, logger *slog.Logger) (err error) {
	stopHTTP, err := f.serveHTTP(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopHTTP()) }()
	a, err := f.connectTo(ctx, servers, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.CheckReach(); err != nil {
		return command.InputError(err)
	}
	m, end, err := f.mount(ctx, a, place{servers, dir}, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	switch {
	case f.foreground && f.output == "json":
		if err := command.PrintJSON(out, map[string]string{"mounted": dir}); err != nil {
			return err
		}
	case f.foreground:
		fmt.Fprintf(out, "ready: %s\n", dir)
	}
	notifyReady()
	reportReady()
	reserved := reserveHeap()
	untilUnmounted(ctx, m)
	runtime.KeepAlive(reserved)
	if f.log != nil {
		f.log.Ending()
	}
	return m.Unmount()
}

// serveHTTP serves profiles and metrics until stop is called. If another process still serves the mount,
// serveHTTP waits in the background until that process has closed the addresses.
func (f *mountFlags) serveHTTP(ctx context.Context, logger *slog.Logger) (stop func() error, err error) {
	begin := func() (func() error, error) {
		stopProfiles, err := serveProfiles(f.profiler)
		if err != nil {
			return nil, err
		}
		stopMetrics, err := serveHTTP("--metrics", f.scraped, scrapes(&f.measured))
		if err != nil {
			return nil, errors.Join(err, stopProfiles())
		}
		return func() error { return errors.Join(stopMetrics(), stopProfiles()) }, nil
	}
	stop, err = begin()
	if !errors.Is(err, syscall.EADDRINUSE) || !f.takeOver && !serve.IsHeld() {
		return stop, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- serveOnceFree(ctx, begin, logger) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// addressPatience is the maximum wait of a mount for the addresses of the process before it.
const addressPatience = time.Minute

// serveOnceFree calls begin, which opens addresses, until it succeeds, and calls the resulting stop when ctx
// ends. It returns the error of begin after addressPatience, or at once if that is not EADDRINUSE.
func serveOnceFree(ctx context.Context, begin func() (func() error, error), logger *slog.Logger) error {
	until := time.Now().Add(addressPatience)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		stop, err := begin()
		switch {
		case err == nil:
			<-ctx.Done()
			return stop()
		case !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until):
			logger.Warn("metrics and profiles of this mount are not available", "error", err)
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// connectTo finds the cluster.
func (f *mountFlags) connectTo(ctx context.Context, servers []string, logger *slog.Logger) (*daemon.Access, error) {
	files, err := f.certs.find("", identity.Client)
	if err != nil {
		return nil, err
	}
	cfg := daemon.AccessConfig{Servers: servers, Certificates: files, Timeout: f.connect, Logger: logger}
	return daemon.Connect(ctx, cfg)
}

// place has the arguments of a mount command.
type place struct {
	servers []string
	dir     string // the mount point
}

// mount makes the mount, or takes one over. end closes all resources that serve it.
func (f *mountFlags) mount(ctx context.Context, a *daemon.Access, at place, logger *slog.Logger) (_ *serve.Mount, end func() error, err error) {
	keeper, handed, err := serve.Held()
	if err != nil {
		return nil, nil, err
	}
	socket, noSocket := serve.HandoverPath(at.dir)
	if f.takeOver && handed == nil {
		if noSocket != nil {
			return nil, nil, noSocket
		}
		if handed, err = serve.RequestHandover(ctx, socket); err != nil {
			return nil, nil, err
		}
	}
	if handed == nil {
		if err := f.awaitLogs(ctx, at.dir, logger); err != nil {
			return nil, nil, err
		}
	}
	m, end, err := f.mountOrTakeOver(ctx, a, at, keeper, handed, logger)
	if err != nil {
		if handed != nil {
			err = errors.Join(err, handed.Close())
		}
		return nil, nil, err
	}
	if keeper != nil {
		if err := keeper.Keep(m); err != nil {
			logger.Warn("no process continues this mount if this process dies", "error", err)
		}
	}
	if noSocket == nil {
		noSocket = m.OfferHandover(socket)
	}
	if noSocket != nil {
		logger.Warn("this mount cannot be handed over to another process", "error", noSocket)
	}
	return m, end, nil
}

// mountOrTakeOver serves the mount that another process has handed over, or makes a mount.
func (f *mountFlags) mountOrTakeOver(ctx context.Context, a *daemon.Access, at place, keeper *serve.Keeper, handed *serve.Handed, logger *slog.Logger) (_ *serve.Mount, end func() error, err error) {
	var before predecessor
	if handed != nil {
		if before.state, err = mount.ClientState(handed); err != nil {
			return nil, nil, err
		}
	}
	if f.flags.ReadOnly || a.IsBound() {
		f.delegate = delegateNone
	}
	if f.delegate != delegateNone {
		l, err := f.startLog(a, at, keeper, logger)
		if err == nil {
			before.journal, err = client.OpenJournal(l.Memory)
		}
		switch {
		case err == nil:
			before.log, f.log = l, l
		case keeper != nil && handed != nil: // there may be changes in the log
			return nil, nil, err
		default:
			f.delegate = delegateNone
			logger.Warn("this mount holds no directories: no process can hold the log of its changes", "error", err)
		}
	}
	c, closeClient, err := f.client(ctx, a, before, logger)
	if err != nil {
		return nil, nil, errors.Join(err, before.leave(logger))
	}
	end = func() error { return errors.Join(closeClient(), before.leave(logger)) }
	m, err := f.begin(c, at.dir, handed, logger)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return m, end, nil
}

// begin mounts, or takes the handed mount.
func (f *mountFlags) begin(c *attach.Client, dir string, handed *serve.Handed, logger *slog.Logger) (*serve.Mount, error) {
	g, err := collector.New(collector.Config{Metadata: c.Client, Regions: c.Regions, Logger: logger})
	if err != nil {
		return nil, err
	}
	cfg := mount.Config{
		Client: c.Client, Dir: dir, Subdir: f.subdir, Logger: logger, Collector: g, Holders: c.Holders, Trace: c.Trace(),
		Options: mount.Options{Flags: f.flags, FsName: f.fsName},
		// A killed process loses updates that are not ordered, while programs continue to use the mount. A
		// linearizable read must see all completed writes.
		Sync: f.sync || f.linearizable || f.supervised,
	}
	if f.linearizable {
		cfg.CacheTime = -1 // cached data of the kernel could be old
	}
	var m *serve.Mount
	if handed != nil {
		m, err = mount.Take(cfg, handed)
	} else {
		m, err = mount.New(cfg)
	}
	if err != nil {
		return nil, err
	}
	f.measured.Add(ofMount(m, c, dir))
	return m, nil
}

// ofMount returns the metrics of a mount.
func ofMount(m *serve.Mount, c *attach.Client, dir string) metrics.Source {
	return func(report metrics.Report) {
		m.Metrics(report, dir)
		c.Metrics(report, dir)
	}
}

// predecessor has the state of the client of the process that served the mount before; zero: no process did.
type predecessor struct {
	state   *client.State
	journal client.Journal // this process continues it
	log     *serve.Log     // with the memory of journal; nil: the mount holds no directories
}

// leave hands the log over to the log holder.
func (p *predecessor) leave(logger *slog.Logger) error {
	if p.log == nil {
		return nil
	}
	kept, err := p.log.Close()
	if kept {
		logger.Warn("servers have not ordered all changes that this mount has answered: another process continues to send them")
	}
	return err
}

// client makes the client, which follows the cluster. end closes it and all resources that it uses.
func (f *mountFlags) client(ctx context.Context, a *daemon.Access, before predecessor, logger *slog.Logger) (_ *attach.Client, end func() error, err error) {
	objects, err := attach.OpenObjectsOfClient(ctx, a.Cluster(), logger)
	if err != nil {
		return nil, nil, err
	}
	region := f.regionOf(a)
	disk, err := f.disk(a, region, before.state != nil, logger)
	if err != nil {
		return nil, nil, errors.Join(err, objects.Close())
	}
	closeStores := func() error {
		err := objects.Close()
		if disk != nil {
			err = errors.Join(err, disk.Close())
		}
		return err
	}
	c, err := a.Client(daemon.ClientConfig{
		Region: region, CacheBytes: int(f.memory), Disk: disk, DiskFar: f.cacheDir == cacheAuto, Objects: objects, Linearizable: f.linearizable, Hard: f.hard, CacheNames: true, Delegate: f.delegate != delegateNone, Near: f.delegate == delegateNear, Journal: before.journal, Resume: before.state, Timeout: f.timeout,
	})
	if err != nil {
		return nil, nil, errors.Join(command.InputError(err), closeStores())
	}
	following, stop := context.WithCancel(ctx)
	var follows sync.WaitGroup
	follows.Go(func() { a.Follow(following, c) })
	if before.log != nil {
		if err := saveState(c.Client, before.log); err != nil { // without it the log is of no use
			logger.Warn("the state of this mount cannot be sent to the log holder", "error", err)
		}
		follows.Go(func() { saveStates(following, c.Client, before.log, logger) })
	}
	return c, func() error {
		c.Finish()
		stop()
		follows.Wait()
		return errors.Join(c.Close(), closeStores())
	}, nil
}

// regionOf returns the region of this machine.
func (f *mountFlags) regionOf(a *daemon.Access) topology.Region {
	if f.region != "" {
		return topology.Region(f.region)
	}
	return a.Region()
}

// disk opens the cache on disk. During a takeover the earlier process has the cache open.
func (f *mountFlags) disk(a *daemon.Access, home topology.Region, takesOver bool, logger *slog.Logger) (*diskcache.Cache, error) {
	switch f.cacheDir {
	case cacheNone, "":
		return nil, nil
	case cacheAuto:
		return attach.OpenDefaultDiskCache(int64(f.cacheSize), a.Cluster(), home, logger), nil
	}
	cache, err := attach.OpenDiskCache(f.cacheDir, int64(f.cacheSize), a.Cluster(), logger)
	if err != nil && takesOver {
		logger.Warn("the cache on disk is not used until the next start", "error", err)
		return nil, nil
	}
	return cache, err
}

// untilUnmounted waits until ctx ends or this process does not serve the mount any more.
func untilUnmounted(ctx context.Context, m *serve.Mount) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Wait()
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
}
