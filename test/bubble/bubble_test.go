package bubble_test

import (
	"sync"
	"testing"
	"time"

	"github.com/globalfs/globalfs/test/bubble"
)

// Without its one processor this nearly always crashes under the race detector.
func TestTimerChannels(t *testing.T) {
	for range 100 {
		bubble.Test(t, func(*testing.T) {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 200 {
						<-time.NewTimer(time.Millisecond).C
						select {
						case <-time.NewTimer(0).C:
						default:
						}
					}
				})
			}
			all.Wait()
		})
	}
}
