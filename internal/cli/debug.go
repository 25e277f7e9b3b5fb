package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/progress"
)

func newDebug(logging *logFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "debug",
		Short:   "Collect data for a bug report",
		Long:    `debug collects the state of a cluster and of this machine for a bug report.`,
		Example: `  globalfs debug bundle`,
	}
	command.Group(cmd)
	cmd.AddCommand(newDebugBundle(logging))
	return cmd
}

// bundleFlags are the flags of debug bundle.
type bundleFlags struct {
	access   accessFlags
	logging  *logFlags
	output   string
	logs     []string
	profiles []string
	metrics  []string
}

func newDebugBundle(logging *logFlags) *cobra.Command {
	f := bundleFlags{logging: logging}
	cmd := &cobra.Command{
		Use:   "bundle [FILE]",
		Short: "Write status, metrics, goroutines, logs, configuration and versions into one archive",
		Long: `bundle writes an archive for a bug report (default: globalfs-debug-TIME.tar.gz in the working directory). It contains:

  of the cluster     its status, the cluster file, the metrics and the stacks of the goroutines of all servers that answer (in a cluster with
                     certificates, these need the certificate of an administrator)
  of this machine    the effective settings, the environment variables of GlobalFS, the mounts, the kernel, the memory, the logs, and the
                     version of this program

The archive is also written if no server answers: errors.txt names the missing parts. Passwords and private keys are left out. Logs and
settings name servers, addresses and paths: look at the archive before you publish it.`,
		Example: `  globalfs debug bundle --config cluster.yaml
  globalfs debug bundle --pprof 127.0.0.1:6060 --log /var/log/globalfs.log report.tar.gz
  globalfs debug bundle -o json | jq -r .file`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageError(fmt.Errorf("debug bundle takes one FILE, got %q", args))
			}
			return nil
		},
		RunE: f.run,
	}
	f.access.register(cmd)
	outputFlag(cmd, &f.output)
	cmd.Flags().StringSliceVar(&f.logs, "log", nil, "log files of this machine (default: the usual log of mounts)")
	cmd.Flags().StringSliceVar(&f.profiles, "pprof", nil, "HOST:PORT that mounts or servers got with --pprof: the goroutines of these processes are added")
	cmd.Flags().StringSliceVar(&f.metrics, "metrics", nil, "HOST:PORT that mounts or servers got with --metrics: their metrics are added")
	return cmd
}

// bundled describes an archive for scripts.
type bundled struct {
	File   string   `json:"file"`
	Parts  []string `json:"parts"`
	Errors []string `json:"errors"` // of parts that are missing
}

func (f *bundleFlags) run(cmd *cobra.Command, args []string) (err error) {
	logger, err := f.logging.logger()
	if err != nil {
		return err
	}
	name := "globalfs-debug-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
	if len(args) > 0 {
		name = args[0]
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w: name another FILE", err)
	}
	b := newBundle(file, strings.TrimSuffix(filepath.Base(name), ".tar.gz"))
	stop := showProgress(cmd.Context(), cmd.ErrOrStderr(), func(context.Context) progress.State {
		return progress.State{Doing: "collecting " + *b.now.Load(), Unit: "parts", Done: uint64(b.count.Load())}
	})
	err = f.collect(cmd, b, logger)
	stop()
	err = errors.Join(err, b.close(), file.Close())
	if cmd.Context().Err() != nil {
		err = errors.New("debug bundle: interrupted")
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	result := bundled{File: name, Parts: b.parts, Errors: append([]string{}, b.errs...)}
	if f.output == "json" {
		return command.PrintJSON(cmd.OutOrStdout(), result)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d parts, %d missing (errors.txt tells why)\n", name, len(b.parts), len(b.errs))
	return err
}

// collect adds all parts.
func (f *bundleFlags) collect(cmd *cobra.Command, b *bundle, logger *slog.Logger) error {
	ctx := cmd.Context()
	b.add("version.json", func() ([]byte, error) { return inJSON(thisVersion()) })
	b.add("host.txt", func() ([]byte, error) { return hostFacts(), nil })
	b.add("environment.txt", func() ([]byte, error) { return environment(), nil })
	path := f.access.path()
	if path == "" {
		path = defaultConfig()
	}
	if path != "" {
		b.add("cluster.yaml", func() ([]byte, error) {
			text, err := os.ReadFile(path)
			return withoutSecrets(text), err
		})
		b.add("settings.txt", func() ([]byte, error) {
			settings, err := fileSettings(path)
			var text bytes.Buffer
			err = errors.Join(err, printSettings(&text, settings))
			return text.Bytes(), err
		})
	}
	f.cluster(ctx, b, logger)
	for _, address := range f.metrics {
		b.add("metrics/"+address+".txt", func() ([]byte, error) { return get(ctx, address, "/metrics", "") })
	}
	for _, address := range f.profiles {
		b.add("goroutines/"+address+".txt", func() ([]byte, error) { return get(ctx, address, "/debug/pprof/goroutine", "debug=2") })
	}
	logs := f.logs
	if len(logs) == 0 {
		logs = []string{defaultLog()}
	}
	for _, log := range logs {
		b.add("logs/"+strings.ReplaceAll(strings.Trim(log, "/"), "/", "_"), func() ([]byte, error) { return tail(log) })
	}
	b.add("logs/journal.txt", func() ([]byte, error) { return journal(ctx) })
	return ctx.Err()
}

// cluster adds the parts from servers.
func (f *bundleFlags) cluster(ctx context.Context, b *bundle, logger *slog.Logger) {
	b.begin("the servers")
	a, err := f.access.open(ctx, logger, identity.Admin, identity.Client)
	if err != nil {
		b.failed("status.txt", err)
		return
	}
	defer func() { _ = a.Close() }() // it only ends connections
	answers := a.Status(ctx)
	health := daemon.Judge(a.Name(), answers, a.Cluster())
	b.add("status.txt", func() ([]byte, error) {
		var text bytes.Buffer
		err := statusView{storage: true, verbose: true}.write(&text, health)
		return text.Bytes(), err
	})
	b.add("status.json", func() ([]byte, error) { return inJSON(health) })
	b.add("answers.json", func() ([]byte, error) { return inJSON(answers) })
	for _, d := range a.Debug(ctx) {
		b.add("servers/"+d.Server+"/goroutines.txt", func() ([]byte, error) { return []byte(d.Report.Goroutines), d.Err })
		if d.Err == nil {
			b.add("servers/"+d.Server+"/metrics.txt", func() ([]byte, error) { return []byte(d.Report.Metrics), nil })
		}
	}
}

// bundle builds an archive.
type bundle struct {
	root  string
	zip   *gzip.Writer
	tar   *tar.Writer
	parts []string
	errs  []string
	fatal error // of the file of the archive

	count atomic.Int64
	now   atomic.Pointer[string]
}

func newBundle(out io.Writer, root string) *bundle {
	b := &bundle{root: root, zip: gzip.NewWriter(out)}
	b.tar = tar.NewWriter(b.zip)
	b.begin("the machine")
	return b
}

// begin sets the name of the part that is collected now, for the progress.
func (b *bundle) begin(part string) { b.now.Store(&part) }

// add adds a part.
func (b *bundle) add(name string, make func() ([]byte, error)) {
	b.begin(name)
	content, err := make()
	if err != nil {
		b.failed(name, err)
	}
	if len(content) > 0 {
		b.write(name, content)
	}
}

// failed records a missing part.
func (b *bundle) failed(name string, err error) {
	b.errs = append(b.errs, fmt.Sprintf("%s: %v", name, err))
}

func (b *bundle) write(name string, content []byte) {
	header := &tar.Header{Name: b.root + "/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: time.Now()}
	err := b.tar.WriteHeader(header)
	if err == nil {
		_, err = b.tar.Write(content)
	}
	b.fatal = errors.Join(b.fatal, err)
	b.parts = append(b.parts, name)
	b.count.Add(1)
}

// close completes the archive.
func (b *bundle) close() error {
	if len(b.errs) > 0 {
		b.write("errors.txt", []byte(strings.Join(b.errs, "\n")+"\n"))
	}
	return errors.Join(b.fatal, b.tar.Close(), b.zip.Close())
}

func inJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	err := command.PrintJSON(&text, value)
	return text.Bytes(), err
}

// maxLog is the maximum size in bytes of the added end of a log.
const maxLog = 8 << 20

// tail returns the end of a log file.
func tail(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-maxLog), io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLog))
	return withoutSecrets(text), err
}

// journalPatience is the time limit for reading the log of systemd, and for an HTTP request.
const journalPatience = 10 * time.Second

// journal returns the last lines that units of GlobalFS logged on this machine, if systemd runs here.
func journal(ctx context.Context) ([]byte, error) {
	program, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, "--no-pager", "--unit", "globalfs*", "--lines", "20000").Output()
	return withoutSecrets(text[max(0, len(text)-maxLog):]), err
}

// get sends an HTTP request to a process of this or another machine.
func get(ctx context.Context, address, path, query string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	u := url.URL{Scheme: "http", Host: address, Path: path, RawQuery: query}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }() // it was only read
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", &u, reply.Status)
	}
	return io.ReadAll(io.LimitReader(reply.Body, maxLog))
}

// environment lists the variables of GlobalFS and Go, without secrets.
func environment() []byte {
	var text strings.Builder
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "GLOBALFS_") || strings.HasPrefix(name, "GO") {
			fmt.Fprintf(&text, "%s=%s\n", name, withoutSecret(name, value))
		}
	}
	return []byte(text.String())
}

// hostFacts describes this machine.
func hostFacts() []byte {
	var text strings.Builder
	host, err := os.Hostname()
	if err != nil {
		host = err.Error()
	}
	fmt.Fprintf(&text, "host %s, %s/%s, %d CPUs, %s\n", host, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.RFC3339))
	for _, path := range []string{"/proc/version", "/proc/loadavg", "/proc/uptime", "/proc/meminfo", "/etc/os-release", "/proc/self/mountinfo"} {
		content, err := os.ReadFile(path)
		if err != nil {
			content = []byte(err.Error() + "\n")
		}
		fmt.Fprintf(&text, "\n== %s\n%s", path, withoutSecrets(content))
	}
	return []byte(text.String())
}
