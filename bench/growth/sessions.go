package growth

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// SessionsConfig is the task of a process with many sessions of the client library. Each session has its own
// connections to the servers, and holds a file open.
type SessionsConfig struct {
	Servers []string // addresses
	Certs   string   // the directory with the certificates
	Names   []string // of the certificates, which the sessions use in turn
	Region  topology.Region
	Dir     posix.Ino // the directory of the files
	Count   int       // of sessions
	Creates int       // of the measurement, by sessions in turn
}

// Timed is the answer of the process: a mean time for the sessions, a median for the creates.
type Timed struct {
	Time time.Duration `json:"ns"`
}

// connectTimeout bounds the first answer of a server.
const connectTimeout = 30 * time.Second

// sessionCache is the size of the block cache of a session.
const sessionCache = 1 << 20

// ServeSessions opens the sessions, answers, measures creates after a line of in, answers, and ends the
// sessions when in ends.
func ServeSessions(ctx context.Context, cfg SessionsConfig, in io.Reader, out io.Writer) (err error) {
	life, end := context.WithCancel(ctx)
	var following sync.WaitGroup
	var all []*session
	defer func() {
		end()
		following.Wait()
		for _, s := range all {
			err = errors.Join(err, s.client.Close(), s.access.Close())
		}
	}()
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	began := time.Now()
	for i := range cfg.Count {
		s, err := cfg.open(ctx, i)
		if err != nil {
			return fmt.Errorf("session %d: %w", i, err)
		}
		all = append(all, s)
		following.Go(func() { s.access.Follow(life, s.client) })
		if err := cfg.create(ctx, s, fmt.Sprintf("held-%d", i)); err != nil {
			return fmt.Errorf("session %d: %w", i, err)
		}
	}
	if err := answers.Encode(Timed{time.Since(began) / time.Duration(cfg.Count)}); err != nil {
		return err
	}
	if !lines.Scan() {
		return lines.Err()
	}
	median, err := medianOf(ctx, cfg.Creates, func(i int) error {
		return cfg.create(ctx, all[i*len(all)/cfg.Creates], fmt.Sprintf("new-%d", i))
	})
	if err = errors.Join(err, answers.Encode(Timed{median})); err != nil {
		return err
	}
	for lines.Scan() {
	}
	return lines.Err()
}

// session is a client of the library with its access to the cluster.
type session struct {
	access *daemon.Access
	client *attach.Client
}

func (cfg *SessionsConfig) open(ctx context.Context, i int) (*session, error) {
	access, err := daemon.Connect(ctx, daemon.AccessConfig{
		Servers: cfg.Servers, Certificates: identity.FilesIn(cfg.Certs, identity.Client, cfg.Names[i%len(cfg.Names)]),
		Timeout: connectTimeout, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	c, err := access.Client(daemon.ClientConfig{Region: cfg.Region, CacheBytes: sessionCache, CacheNames: true})
	if err != nil {
		return nil, errors.Join(err, access.Close())
	}
	return &session{access, c}, nil
}

// create makes a file, which stays open.
func (cfg *SessionsConfig) create(ctx context.Context, s *session, name string) error {
	_, err := s.client.Create(ctx, posix.Cred{}, client.Name{Dir: cfg.Dir, Name: name}, 0o644, 0)
	return err
}

// sessionsPerName is the number of sessions with the same certificate. Servers accept 1,024 connections of
// one certificate, and a session may have several.
const sessionsPerName = 100

// idleSessions observes the servers while sessions are open.
func (r *run) idleSessions(ctx context.Context, report *Report) (err error) {
	s := &Sessions{Sessions: r.Sessions}
	if s.Alone, err = r.busiest(ctx, r.Window); err != nil {
		return err
	}
	if s.MemoryAlone, err = r.largest("VmRSS"); err != nil {
		return err
	}
	args, err := r.prepareSessions(ctx)
	if err != nil {
		return err
	}
	p, err := r.startSessions(ctx, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.in.Close(), p.command.Wait()) }()
	if s.Each, err = p.answer(); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if s.With, err = r.busiest(ctx, r.Window); err != nil {
		return err
	}
	if s.Memory, err = r.largest("VmRSS"); err != nil {
		return err
	}
	if s.Process, err = memory(p.command.Process.Pid, "VmRSS"); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(p.in, "create"); err != nil {
		return err
	}
	s.Create, err = p.answer()
	report.Sessions = s
	return err
}

// prepareSessions makes a directory and certificates for sessions, and returns the arguments of their
// process.
func (r *run) prepareSessions(ctx context.Context) (args []string, err error) {
	if err := r.mount.Start(ctx); err != nil {
		return nil, err
	}
	dir := r.path("sessions")
	err = os.Mkdir(dir, 0o755)
	info, statErr := os.Stat(dir)
	if err = errors.Join(err, statErr, r.mount.Close()); err != nil {
		return nil, err
	}
	var servers, names []string
	for _, name := range r.cluster.Names() {
		servers = append(servers, r.cluster.Address(name))
	}
	for i := 0; i < r.Sessions; i += sessionsPerName {
		name := fmt.Sprintf("sessions-%d", i)
		if _, err := r.cluster.Run(ctx, "certs", "client", name, "--root", "--dir", r.cluster.Certs()); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return []string{
		"--servers", strings.Join(servers, ","), "--certs", r.cluster.Certs(), "--names", strings.Join(names, ","), "--region", string(region),
		"--inode", fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino), "--count", fmt.Sprint(r.Sessions), "--creates", fmt.Sprint(r.Operations),
	}, nil
}

// sessionsProcess is a process that runs ServeSessions.
type sessionsProcess struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

func (r *run) startSessions(ctx context.Context, args []string) (*sessionsProcess, error) {
	p := &sessionsProcess{command: exec.CommandContext(ctx, r.Client[0], slices.Concat(r.Client[1:], args)...)}
	p.command.Stderr = os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.command.Start()
}

// answer returns the next answer of the process.
func (p *sessionsProcess) answer() (time.Duration, error) {
	var t Timed
	err := p.out.Decode(&t)
	return t.Time, err
}
