// Package results writes the reports of measurements.
package results

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteJSON writes a report for programs.
func WriteJSON(w io.Writer, report any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// WriteFile makes a file of the output of write.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Files are the files of a report, by name, with the functions that write them.
type Files map[string]func(io.Writer) error

// Report is what a measurement has found.
type Report interface {
	WriteJSON(w io.Writer) error
	WriteTable(w io.Writer) error
}

// Both are NAME.json and NAME.txt of a report.
func Both(name string, r Report) Files {
	return Files{name + ".json": r.WriteJSON, name + ".txt": r.WriteTable}
}

// WriteFiles makes a directory, and files in it. It goes on after an error.
func WriteFiles(dir string, files Files) error {
	err := os.MkdirAll(dir, 0o755)
	if err != nil {
		return err
	}
	for name, write := range files {
		err = errors.Join(err, WriteFile(filepath.Join(dir, name), write))
	}
	return err
}
