package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func number(content []byte) (uint64, error) {
	return strconv.ParseUint(strings.TrimSuffix(string(content), "\n"), 10, 31)
}

func text([]byte) (uint64, error) { return 0, nil }

// numberedFile returns a file with a copy that went from 96 to 97.
func numberedFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, WriteCopied(path, []byte("96\n")))
	require.NoError(t, WriteCopied(path, []byte("97\n")))
	return path
}

// If any bit of one of the two files turns over, nothing is lost, and both are as they were afterwards. A
// number is never lower.
func TestOneBadCopy(t *testing.T) {
	for _, suffix := range []string{"", copySuffix} {
		good, err := os.ReadFile(numberedFile(t) + suffix)
		require.NoError(t, err)
		step := 3
		if suffix != "" {
			step = 23 // another bit of each third byte
		}
		for bit := 0; bit < 8*len(good); bit += step {
			path := numberedFile(t)
			bad := append([]byte(nil), good...)
			bad[bit/8] ^= 1 << (bit % 8)
			require.NoError(t, os.WriteFile(path+suffix, bad, 0o600))
			got, err := ReadCopied(path, number)
			require.NoError(t, err)
			n, err := number(got)
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, uint64(97), "%s, bit %d", suffix, bit)
			wrong, senseless := number(bad)
			if suffix != "" {
				require.NoFileExists(t, path+DamagedSuffix)
			} else if senseless != nil || wrong < 96 {
				require.Equal(t, "97\n", string(got))
				kept, err := os.ReadFile(path + DamagedSuffix)
				require.NoError(t, err)
				require.Equal(t, bad, kept)
			}
			require.NotNil(t, readCopy(path))
			again, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, got, again)
			require.Equal(t, got, readCopy(path).content)
		}
	}
}

// A crash between both writes leaves the old or the new content, which is no damage.
func TestCrashBetweenBothWrites(t *testing.T) {
	path := numberedFile(t)
	require.NoError(t, os.WriteFile(path, []byte("96\n"), 0o600))
	got, err := ReadCopied(path, number)
	require.NoError(t, err)
	require.Equal(t, "97\n", string(got))
	require.NoFileExists(t, path+DamagedSuffix)

	require.NoError(t, os.Remove(path)) // as before the first write of the file
	got, err = ReadCopied(path, number)
	require.NoError(t, err)
	require.Equal(t, "97\n", string(got))
	require.NoFileExists(t, path+DamagedSuffix)
}

// A version that knows no copies, or an operator, writes the file only.
func TestWrittenWithoutTheCopy(t *testing.T) {
	path := numberedFile(t)
	require.NoError(t, os.WriteFile(path, []byte("98\n"), 0o600))
	got, err := ReadCopied(path, number)
	require.NoError(t, err)
	require.Equal(t, "98\n", string(got))
	require.Equal(t, "98\n", string(readCopy(path).content))

	require.NoError(t, os.Remove(path+copySuffix))
	got, err = ReadCopied(path, number)
	require.NoError(t, err)
	require.Equal(t, "98\n", string(got))
	require.Equal(t, "98\n", string(readCopy(path).content), "it has one now")
}

// Text has no order: the copy counts.
func TestCopyOfText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, WriteCopied(path, []byte("server a\n")))
	require.NoError(t, os.WriteFile(path, []byte("server c\n"), 0o600))
	got, err := ReadCopied(path, text)
	require.NoError(t, err)
	require.Equal(t, "server a\n", string(got))
}

func TestNoGoodCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	_, err := ReadCopied(path, text)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoFileExists(t, path+copySuffix)
	senseless := errors.New("senseless")
	never := func([]byte) (uint64, error) { return 0, senseless }
	for _, content := range []string{"", "x"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err = ReadCopied(path, never)
		require.ErrorIs(t, err, senseless)
		require.NoFileExists(t, path+copySuffix)
	}
	require.NoError(t, WriteCopied(path, []byte("y")))
	_, err = ReadCopied(path, never)
	require.ErrorIs(t, err, senseless)
	for i := range 40 { // of the copy
		require.NoError(t, os.WriteFile(path+copySuffix, fmt.Appendf(nil, "%.*s", i, "globalfs-copy 1 00000000 00000000\ncontent"), 0o600))
		require.Nil(t, readCopy(path))
	}
}
