package reproduce

import (
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"

	"github.com/globalfs/globalfs/bench/results"
)

// Report has the parts of all papers.
type Report struct {
	Machine string `json:"machine"`
	Parts   []Part `json:"parts"`
}

// Differences counts the findings that were not confirmed.
func (r *Report) Differences() (count, of int) {
	for _, p := range r.Parts {
		for _, f := range p.Findings {
			of++
			if f.Verdict != Confirmed {
				count++
			}
		}
	}
	return count, of
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error { return results.WriteJSON(w, r) }

// WriteTable writes a line for each finding.
func (r *Report) WriteTable(w io.Writer) error {
	for _, p := range r.Parts {
		fmt.Fprintf(w, "%s (%s)\n", p.Title, p.Took)
		for _, f := range p.Findings {
			fmt.Fprintf(w, "  %-10s %-24s %s\n", f.Verdict, f.Item, f.Ours)
		}
	}
	differ, of := r.Differences()
	_, err := fmt.Fprintf(w, "%d of %d findings differ from the papers\n", differ, of)
	return err
}

// write writes report.md and index.html.
func (r *Report) write(dir string) error {
	if err := results.WriteFile(filepath.Join(dir, "report.md"), r.writeMarkdown); err != nil {
		return err
	}
	return results.WriteFile(filepath.Join(dir, "index.html"), func(w io.Writer) error { return page.Execute(w, r) })
}

func (r *Report) writeMarkdown(w io.Writer) error {
	differ, of := r.Differences()
	fmt.Fprintf(w, "# The papers, reproduced\n\nMachine: %s. %d of %d findings differ from the papers.\n", r.Machine, differ, of)
	cell := strings.NewReplacer("|", "\\|", "\n", " ").Replace
	for _, p := range r.Parts {
		fmt.Fprintf(w, "\n## %s\n\n%s%s Version %s, %s.\n\n", p.Title, p.Method, quickNote(p), p.Version, p.Took)
		fmt.Fprint(w, "| figure or table | the paper | ours | verdict | explanation |\n|---|---|---|---|---|\n")
		for _, f := range p.Findings {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", cell(f.Item), cell(f.Paper), cell(f.Ours), f.Verdict, cell(f.Why))
		}
		fmt.Fprintln(w)
		for _, name := range p.Files {
			if strings.HasSuffix(name, ".svg") {
				fmt.Fprintf(w, "![%s](%s/%s)\n", name, p.Name, name)
			} else {
				fmt.Fprintf(w, "- [%s](%s/%s)\n", name, p.Name, name)
			}
		}
	}
	return nil
}

func quickNote(p Part) string {
	if p.Quick {
		return " A quick run: it shows shapes, not numbers."
	}
	return ""
}

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"svg":  func(name string) bool { return strings.HasSuffix(name, ".svg") },
	"note": quickNote,
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>The papers, reproduced</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } td, th { border: 1px solid #ccc; padding: .4rem .6rem; text-align: left; vertical-align: top; }
.differs { background: #fff3cd; } img { max-width: 100%; height: auto; }
</style></head><body>
<h1>The papers, reproduced</h1>
<p>Machine: {{.Machine}}.</p>
{{range $p := .Parts}}<h2>{{.Title}}</h2>
<p>{{.Method}}{{note .}} Version {{.Version}}, {{.Took}}.</p>
<table><tr><th>figure or table</th><th>the paper</th><th>ours</th><th>verdict</th><th>explanation</th></tr>
{{range .Findings}}<tr class="{{.Verdict}}"><td>{{.Item}}</td><td>{{.Paper}}</td><td>{{.Ours}}</td><td>{{.Verdict}}</td><td>{{.Why}}</td></tr>
{{end}}</table>
{{range .Files}}{{if svg .}}<p><img src="{{$p.Name}}/{{.}}" alt="{{.}}"></p>{{else}}<p><a href="{{$p.Name}}/{{.}}">{{.}}</a></p>{{end}}
{{end}}{{end}}</body></html>
`))
