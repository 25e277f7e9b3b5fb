package identity

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	vectorBlock     = "GLOBALFS VECTOR KEY"
	vectorKeyBytes  = 32
	generationFile  = "vector-generation" // beside the CA's key; missing: generation 0
	maxGenerations  = 1 << 20
	validGeneration = 2 // generations that are valid at the same time
)

// vectorKeys derives the valid keys, the newest first.
func (ca *CA) vectorKeys() (keys [][]byte, err error) {
	secret, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		return nil, fmt.Errorf("vector keys: %w", err)
	}
	for g := ca.generation; g >= 0 && len(keys) < validGeneration; g-- {
		key, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprintf("globalfs vector key %d", g), vectorKeyBytes)
		if err != nil {
			return nil, fmt.Errorf("vector keys: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// appendVectorKeys appends keys to the PEM of a private key.
func appendVectorKeys(b []byte, keys [][]byte) []byte {
	for _, key := range keys {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: vectorBlock, Bytes: key})...)
	}
	return b
}

// parseKeyFile splits the PEM of a key file into the private key and the vector keys.
func parseKeyFile(data []byte) (private []byte, vectors [][]byte) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == vectorBlock {
			vectors = append(vectors, block.Bytes)
		} else {
			private = append(private, pem.EncodeToMemory(block)...)
		}
	}
	return private, vectors
}

// readVectorKeys reads the vector keys of a key file; the file may have none.
func readVectorKeys(path string) ([][]byte, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	_, keys := parseKeyFile(data)
	for _, key := range keys {
		if len(key) != vectorKeyBytes {
			return nil, fmt.Errorf("%s: a vector key has %d bytes, not %d: 'globalfs certs server NAME' writes the vector keys anew", path, len(key), vectorKeyBytes)
		}
	}
	return keys, nil
}

// SaveVectorKeys writes the CA's vector keys to the key file of a server, beside its private key. It reports
// whether the file had other vector keys before.
func (ca *CA) SaveVectorKeys(f Files) (changed bool, err error) {
	keys, err := ca.vectorKeys()
	if err != nil {
		return false, err
	}
	data, err := readFile(f.Key)
	if err != nil {
		return false, err
	}
	private, _ := parseKeyFile(data)
	wanted := appendVectorKeys(private, keys)
	if bytes.Equal(data, wanted) {
		return false, nil
	}
	return true, writeFile(f.Key, wanted, 0o600, true)
}

// RotateVectorKeys begins the next generation of vector keys, and writes it to the key files of all servers
// in the directory of the CA. It returns the names of these servers. The keys of the last generation stay
// valid.
func RotateVectorKeys(dir string) ([]string, error) {
	ca, err := LoadCA(dir)
	if err != nil {
		return nil, err
	}
	if ca.generation++; ca.generation >= maxGenerations {
		return nil, fmt.Errorf("%s: too many rotations", filepath.Join(KeyDir(dir), generationFile))
	}
	if err := writeFile(filepath.Join(KeyDir(dir), generationFile), []byte(strconv.Itoa(ca.generation)+"\n"), 0o600, true); err != nil {
		return nil, err
	}
	servers, err := Names(dir, Server)
	if err != nil {
		return nil, err
	}
	for _, name := range servers {
		if _, err := ca.SaveVectorKeys(FilesIn(dir, Server, name)); err != nil {
			return nil, err
		}
	}
	return servers, nil
}

// readGeneration reads the generation of the vector keys.
func readGeneration(dir string) (int, error) {
	path := filepath.Join(KeyDir(dir), generationFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 || n >= maxGenerations {
		return 0, fmt.Errorf("%s: %q is not a number of rotations: restore the file from a copy, or remove it and copy the new key files to all servers", path, text)
	}
	return n, nil
}

// VectorKeys returns the keys of the key file, the newest first; none for a process that is not a server, or
// for a file of an older version.
func (c *Credentials) VectorKeys() [][]byte { return c.current().vectorKeys }
