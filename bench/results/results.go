// Package results writes the reports of measurements.
package results

import (
	"encoding/json"
	"errors"
	"io"
	"os"
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
