package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
)

const (
	keyFile      = "gateway.seed"
	registryFile = "nodes.jsonl" // of package pairing
	maxSeed      = 1 << 10       // bytes
)

// ownKey reads the key of a gateway. At the first start it makes one.
func ownKey(dir string) (nkeys.KeyPair, error) {
	path := filepath.Join(dir, keyFile)
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	// Nodes are paired with the key, and obey no other.
	if _, err := os.Lstat(filepath.Join(dir, registryFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, corral.Errorf(corral.ErrUnavailable, "put back a copy of it, or move "+dir+" away and pair the nodes again",
			"the gateway's key %s is lost, and there are nodes that obey no other", path)
	}
	if err := makeKey(path); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot make a key for the gateway: %w", err)
	}
	return readKey(path)
}

// readKey reads a key that no other user can have read.
func readKey(path string) (nkeys.KeyPair, error) {
	hint := "see who changed it, then make it a file that only its owner can read and write (0600)"
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	// Other systems lack these bits.
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("it can be used by others (%v)", info.Mode())
	}
	var seed []byte
	if err == nil {
		seed, err = readFile(path)
	}
	var key nkeys.KeyPair
	if err == nil {
		if key, err = nkeys.FromSeed(bytes.TrimSpace(seed)); err != nil {
			// The error leaves out the text: it may be a seed with one letter wrong.
			err = errors.New("it has no seed of an nkey")
			hint = "put back a copy of it; or remove it, and pair the nodes again"
		}
	}
	if err != nil {
		return nil, corral.Errorf(corral.ErrDenied, hint, "cannot use the gateway's key %s: %w", path, err)
	}
	return key, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSeed))
	return data, errors.Join(err, f.Close())
}

// makeKey makes a key, unless another program has made it in the meantime.
func makeKey(path string) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	return writeNew(path, append(seed, '\n'))
}

// writeNew writes a file, unless another program has done so in the meantime.
func writeNew(path string, text []byte) error {
	err := atomicfile.Create(path, text, atomicfile.Options{Durable: true})
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
