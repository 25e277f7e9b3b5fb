package trace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/globalfs/globalfs/internal/trace"
)

func TestRecorder(t *testing.T) {
	var none *trace.Recorder
	none.Add(trace.Event{})
	assert.False(t, none.On())

	var r trace.Recorder
	r.Add(trace.Event{Step: "before"})
	r.Start(time.Minute)
	for range trace.MaxEvents + 3 {
		r.Add(trace.Event{Step: "during"})
	}
	got := r.Stop()
	assert.Len(t, got.Events, trace.MaxEvents)
	assert.Equal(t, 3, got.Dropped)
	assert.Equal(t, "during", got.Events[0].Step)
	r.Add(trace.Event{Step: "after"})
	assert.Empty(t, r.Stop().Events)
}

func TestRecorderEndsByItself(t *testing.T) {
	var r trace.Recorder
	r.Start(0)
	r.Add(trace.Event{Step: "late"})
	assert.False(t, r.On())
	assert.Empty(t, r.Stop().Events)
}
