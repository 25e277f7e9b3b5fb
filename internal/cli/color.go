package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// palette colours words for a terminal. The zero value does not change text.
type palette struct{ on bool }

// paletteFor returns colours for a terminal, and none for files and pipes, with NO_COLOR (see no-color.org)
// and on a terminal that knows no colours.
func paletteFor(out io.Writer) palette {
	return palette{isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// isTerminal reports whether out is a terminal.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func (p palette) paint(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p palette) red(text string) string    { return p.paint("1;31", text) }
func (p palette) yellow(text string) string { return p.paint("33", text) }
func (p palette) green(text string) string  { return p.paint("32", text) }
func (p palette) faint(text string) string  { return p.paint("2", text) }
