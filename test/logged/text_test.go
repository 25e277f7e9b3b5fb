package logged_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/logged"
)

func TestText(t *testing.T) {
	var text logged.Text
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() { text.Logger().Info("said", "number", i) })
	}
	all.Wait()
	require.True(t, text.Has("msg=said number=7"))
	require.False(t, text.Has("number=10"))
	require.Equal(t, 10, text.Count("msg=said"))
	fmt.Fprint(&text, "a\nb\nc")
	require.Equal(t, "b\nc", text.Tail(2))
	require.Equal(t, text.String(), text.Tail(100))
}
