package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/atomicfile"
)

const (
	tokenBytes = 32
	minToken   = 32 // characters; what is shorter was not made here, and can be guessed
	maxToken   = 4096
)

// Token reads the token in a file, which is made with a new one if there is
// none, or an empty one. A file that others may read is refused: they would have the token.
func Token(path string) (string, error) {
	if info, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) && (err != nil || info.Size() > 0) {
		return readToken(path)
	}
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails: see its documentation
	token := hex.EncodeToString(raw)
	// All of it or nothing: a file that has only begun would keep every later
	// gateway from starting.
	if err := atomicfile.Write(path, []byte(token+"\n"), atomicfile.Options{Durable: true}); err != nil {
		return "", fmt.Errorf("cannot write the token file %s: %w", path, err)
	}
	return token, nil
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the token file: %w", err)
	}
	if privateFiles && info.Mode().Perm()&0o077 != 0 {
		return "", corral.Errorf(corral.ErrDenied, "remove it to have a new one made, since the token may be known", "the token file %s may be read by others (%v)", path, info.Mode().Perm())
	}
	if info.Size() > maxToken {
		return "", corral.Errorf(corral.ErrInvalid, "remove it to have a new one made", "the token file %s has %d bytes", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minToken {
		return "", corral.Errorf(corral.ErrInvalid, "remove it to have a new one made", "the token in %s has %d characters, fewer than %d", path, len(token), minToken)
	}
	return token, nil
}
