package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/progress"
)

// After Ctrl-C a benchmark prints the rows that are complete. After another error it prints none.
func TestWriteMeasured(t *testing.T) {
	r := command.Result{Name: "x", Rows: []int{7}, Table: func(out io.Writer) error {
		_, err := fmt.Fprintln(out, "seven")
		return err
	}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx       context.Context
		rows      int
		err       error
		out, says string
	}{
		{t.Context(), 1, nil, "seven\n", ""},
		{t.Context(), 1, io.ErrUnexpectedEOF, "", "unexpected EOF"},
		{ended, 1, context.Canceled, "seven\n", "interrupted: the 1 rows that were complete are printed"},
		{ended, 0, context.Canceled, "", "interrupted, there is no result"},
	} {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(c.ctx)
		cmd.SetOut(&out)
		err := writeMeasured(cmd, &r, c.rows, "table", "", c.err)
		require.Equal(t, c.out, out.String())
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says)
	}
}

func TestSteps(t *testing.T) {
	meter := new(progress.Meter)
	step := steps(meter, 3)
	step("a")
	require.Equal(t, progress.State{Doing: "a", Unit: "steps", Total: 3}, meter.State())
	step("b")
	require.Equal(t, progress.State{Doing: "b", Unit: "steps", Done: 1, Total: 3}, meter.State())
}
