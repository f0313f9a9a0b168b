package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
)

const (
	tokenBytes = 32
	minToken   = 32 // characters; what is shorter was not made here, and can be guessed
	maxToken   = 4096
)

// A token that was made here is tokenPrefix, 64 hexadecimal digits, and tokenMark with the
// checksum of what is before it. Clients send it as it is. Tokens of earlier versions are
// the digits alone. An operator may also write any other text into the file.
const (
	tokenPrefix = "corral_"
	tokenMark   = '.'
	sumDigits   = 8
	tokenSize   = len(tokenPrefix) + 2*tokenBytes + 1 + sumDigits
)

func newToken() string {
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails: see its documentation
	token := tokenPrefix + hex.EncodeToString(raw)
	return token + string(tokenMark) + journal.Sum([]byte(token))
}

// CheckToken reports whether a token is damaged, as far as that can be seen: one that was
// made by [Token] has a checksum.
func CheckToken(token string) error {
	if strings.ContainsFunc(token, unicode.IsControl) { // such as a file of zeros, which anyone could guess
		return errors.New("the token is damaged: it has control characters")
	}
	at := len(token) - 1 - sumDigits
	marked := len(token) == tokenSize && token[at] == tokenMark // whatever became of the prefix
	if !marked && !strings.HasPrefix(token, tokenPrefix) {
		return nil
	}
	if !marked || token[at+1:] != journal.Sum([]byte(token[:at])) {
		return errDamagedToken
	}
	return nil
}

var errDamagedToken = errors.New("the token is damaged: its checksum is another one")

// Token reads the token in a file, which is made with a new one if there is
// none, or an empty one. A file that others may read is refused: they would have the
// token. So is a damaged one: no client would have that token.
func Token(path string, log *slog.Logger) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Size() == 0:
		log.Error("the file with the gateway's token was empty, and a new token was made; clients have to read it again", "file", path)
	case !errors.Is(err, fs.ErrNotExist):
		return readToken(path)
	}
	token := newToken()
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
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
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
	if err := CheckToken(token); err != nil {
		return "", corral.Errorf(corral.ErrUnavailable, "put back a copy, or remove it to have a new one made, which clients need then", "cannot use the token file %s: %w", path, err)
	}
	return token, nil
}
