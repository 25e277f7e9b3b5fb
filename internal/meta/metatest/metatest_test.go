package metatest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
)

func memory() Store { return kv.NewMemory() }

// fromSeed returns a source of that many choices.
func fromSeed(seed uint64, choices int) Source {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(n int) (int, bool) {
		choices--
		return rng.IntN(n), choices >= 0
	}
}

// fromBytes returns a source for the fuzzer.
func fromBytes(b []byte) Source {
	return func(n int) (int, bool) {
		if len(b) < 2 {
			return 0, false
		}
		choice := int(b[0])
		b = b[1:]
		if n > 256 {
			choice = choice<<8 | int(b[0])
			b = b[1:]
		}
		return choice % n, true
	}
}

func TestMachineIsTheModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			require.NoError(t, Run(fromSeed(seed, 12000), [2]Store{memory(), memory()}, memory))
		})
	}
}

func TestMachineOnDiskIsTheModel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			disk, err := kv.Open(t.TempDir(), kv.Options{WriteBuffer: 64 << 10, ValueCache: 4 << 10})
			require.NoError(t, err)
			require.NoError(t, Run(fromSeed(1000+seed, 12000), [2]Store{disk, memory()}, memory))
			require.NoError(t, disk.Close())
		})
	}
}

func FuzzModel(f *testing.F) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 2))
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, Run(fromBytes(b), [2]Store{memory(), memory()}, memory))
	})
}
