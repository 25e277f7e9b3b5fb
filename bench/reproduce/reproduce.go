// Package reproduce repeats the experiments of the papers that GlobalFS is built on, and compares the outcome
// with the findings of the papers. One report has each figure and table with a verdict.
//
// The experiments are those of the other packages of bench. A paper's part is kept in a file when it has
// ended, so that an interrupted run goes on with the next paper.
package reproduce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/bench/results"
)

// Verdict compares an outcome with the finding of a paper.
type Verdict string

// The verdicts.
const (
	Confirmed Verdict = "confirmed"
	Differs   Verdict = "differs"
)

// Finding is a figure or a table of a paper, or a part of it.
type Finding struct {
	Item    string  `json:"item"`
	Paper   string  `json:"paper"` // the finding of the paper
	Ours    string  `json:"ours"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"` // of a difference
}

// Part is the outcome of one paper.
type Part struct {
	Name     string        `json:"name"`
	Title    string        `json:"title"`
	Method   string        `json:"method"`
	Quick    bool          `json:"quick"`
	Version  string        `json:"version"`
	Took     time.Duration `json:"took_ns"`
	Findings []Finding     `json:"findings"`
	Files    []string      `json:"files"` // of the part's directory
}

// Options of a run.
type Options struct {
	Papers   []string // none: all
	Quick    bool     // short runs, which show shapes and no numbers
	Dir      string
	Compiled []string // measurements of Table 3.3: bc=FILE, httpd=FILE
	Version  string   // of the program: a part of another version is made anew
	Progress func(what string)
}

// paper is a paper with its experiments.
type paper struct {
	name, title, method string
	run                 func(context.Context, *job) error
}

// job is a paper's run.
type job struct {
	*Options
	part *Part
	dir  string
}

func papers() []paper {
	return []paper{globalfsPaper(), primcastPaper(), tramPaper(), heronPaper(), batchingPaper(), packingPaper()}
}

// Names gives the papers that can be reproduced.
func Names() (names []string) {
	for _, p := range papers() {
		names = append(names, p.name)
	}
	return names
}

// Validate names the wrong option and the remedy.
func (o *Options) Validate() error {
	for _, name := range o.Papers {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no paper %q: give some of %s", name, strings.Join(Names(), ", "))
		}
	}
	if o.Dir == "" {
		return errors.New("no directory for the report: give one")
	}
	return o.validateCompiled()
}

// Run reproduces the papers one after the other, and writes the report: report.md and index.html in the
// directory, with a directory for the files of each paper. When ctx ends, the report has the papers so far.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Machine: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	if err := o.Validate(); err != nil {
		return r, err
	}
	var failure error
	for _, p := range papers() {
		if len(o.Papers) > 0 && !slices.Contains(o.Papers, p.name) {
			continue
		}
		part, err := o.part(ctx, p)
		if err != nil {
			failure = fmt.Errorf("%s: %w", p.name, err)
			break
		}
		r.Parts = append(r.Parts, *part)
	}
	return r, errors.Join(failure, r.write(o.Dir))
}

// part gives the part of a paper: the kept one, or a new one.
func (o *Options) part(ctx context.Context, p paper) (*Part, error) {
	dir := filepath.Join(o.Dir, p.name)
	file := filepath.Join(dir, "findings.json")
	if kept, err := readPart(file); err != nil {
		return nil, err
	} else if kept != nil && kept.Version == o.Version && kept.Quick == o.Quick {
		o.Progress(p.name + ": kept from an earlier run")
		return kept, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	j := &job{Options: o, dir: dir, part: &Part{Name: p.name, Title: p.title, Method: p.method, Quick: o.Quick, Version: o.Version}}
	begin := time.Now()
	if err := p.run(ctx, j); err != nil {
		return nil, err
	}
	j.part.Took = time.Since(begin).Round(time.Second)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(file) {
			j.part.Files = append(j.part.Files, e.Name())
		}
	}
	return j.part, results.WriteFile(file, func(w io.Writer) error { return results.WriteJSON(w, j.part) })
}

// readPart gives the part in a file, or nil if there is none.
func readPart(file string) (*Part, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Part{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("%s: %w: delete the file to run the paper again", file, err)
	}
	return p, nil
}

// progress names the measurement that a paper's run begins.
func (j *job) progress(what string) { j.Progress(j.part.Name + ": " + what) }

// check adds a finding. Why explains a difference.
func (j *job) check(item, paper string, confirmed bool, why, format string, args ...any) {
	f := Finding{Item: item, Paper: paper, Ours: fmt.Sprintf(format, args...), Verdict: Confirmed}
	if !confirmed {
		f.Verdict, f.Why = Differs, why
	}
	j.part.Findings = append(j.part.Findings, f)
}
