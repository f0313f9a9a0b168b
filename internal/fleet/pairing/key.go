package pairing

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
)

// Lengths, in characters.
const (
	keyLength     = 56
	idLength      = 20
	codeLength    = 8 // without the hyphen
	tokenIDLength = 8
	secretLength  = 26 // 130 bits
)

// codeRounds makes guessing a Code slow: some milliseconds each.
const codeRounds = 1 << 14

// readable leaves out characters that people mistake for others.
const readable = "0123456789abcdefghjkmnpqrstvwxyz"

var readable32 = base32.NewEncoding(readable).WithPadding(base32.NoPadding)

// ValidateKey reports whether key is the public key of a node: an nkey for users, in
// its only spelling.
func ValidateKey(key string) error {
	if !written(key) || !nkeys.IsValidPublicUserKey(key) {
		return corral.Errorf(corral.ErrInvalid, "use the public key of an nkey for users: U and 55 characters", "%s is no key of a node", quote(key))
	}
	return nil
}

// written reports whether key has the spelling of keys: the base32 decoder ignores line
// ends.
func written(key string) bool {
	return len(key) == keyLength && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '2' || r > '7')
	})
}

// ID is the id of the node with a key.
func ID(key string) string {
	sum := sha256.Sum256([]byte("corral node id\n" + key))
	return readable32.EncodeToString(sum[:])[:idLength]
}

// isID reports whether s looks like an id.
func isID(s string) bool { return len(s) == idLength && onlyReadable(s) }

func onlyReadable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(readable, r) })
}

// Code is the code that people compare to verify that gateway and node have each
// other's key: two groups of four characters, as "7k2m-x0qd". It takes milliseconds.
func Code(nodeKey, gatewayKey string) string {
	sum, err := pbkdf2.Key(sha256.New, nodeKey+"\n"+gatewayKey, []byte("corral pairing code"), codeRounds, 5)
	if err != nil {
		panic(err) // never: the lengths are constant
	}
	code := readable32.EncodeToString(sum)
	return code[:4] + "-" + code[4:]
}

// SameCode reports whether two codes are the same, however people write them: in
// capitals, without the hyphen, with o for 0. It compares in constant time.
func SameCode(a, b string) bool {
	x, y := plainCode(a), plainCode(b)
	return len(x) == codeLength && subtle.ConstantTimeCompare([]byte(x), []byte(y)) == 1
}

var spelled = strings.NewReplacer("-", "", " ", "", "o", "0", "i", "1", "l", "1")

func plainCode(s string) string {
	if len(s) > 4*codeLength {
		return ""
	}
	return spelled.Replace(strings.ToLower(s))
}

// A setup token consists of an id, which is not secret, and a secret.
const tokenPrefix = "corral-"

func newSecret() (token, id string) {
	id, secret := random(tokenIDLength), random(secretLength)
	return tokenPrefix + id + "-" + secret, id
}

func random(n int) string {
	b := make([]byte, n) // 8 bits for each 5, the rest is cut off
	_, _ = rand.Read(b)  // never fails: see package crypto/rand
	return readable32.EncodeToString(b)[:n]
}

// tokenHash is the stored form of a token.
func tokenHash(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// Proof is sent by a node in place of its setup token.
func Proof(token, nodeKey, gatewayKey string) (string, error) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	id, secret, _ := strings.Cut(rest, "-")
	if !ok || len(id) != tokenIDLength || len(secret) != secretLength || !onlyReadable(id+secret) {
		// The error leaves out the token: it may have just one letter wrong.
		return "", corral.Errorf(corral.ErrInvalid, "copy all of it: corral-, 8 characters, a hyphen and 26 more", "the setup token is not written as one")
	}
	if err := ValidateKey(nodeKey); err != nil {
		return "", err
	}
	if err := validateGateway(gatewayKey); err != nil {
		return "", err
	}
	mac := proofMAC(tokenHash(token), nodeKey, gatewayKey)
	return id + "." + base64.RawURLEncoding.EncodeToString(mac), nil
}

func validateGateway(key string) error {
	if !written(key) || !nkeys.IsValidPublicKey(key) {
		return corral.Errorf(corral.ErrInvalid, "use the public key of an nkey", "%s is no key of a gateway", quote(key))
	}
	return nil
}

func proofMAC(hash [sha256.Size]byte, nodeKey, gatewayKey string) []byte {
	mac := hmac.New(sha256.New, hash[:])
	mac.Write([]byte("corral setup\n" + nodeKey + "\n" + gatewayKey))
	return mac.Sum(nil)
}

// parseProof returns the id of the proof's token.
func parseProof(proof string) (id string, mac []byte, ok bool) {
	id, text, ok := strings.Cut(proof, ".")
	if !ok || len(id) != tokenIDLength || len(text) != base64.RawURLEncoding.EncodedLen(sha256.Size) {
		return "", nil, false
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return id, mac, err == nil && len(mac) == sha256.Size
}

// proves reports whether a proof was made with the token that has that hash, in hex.
func proves(mac []byte, hash, nodeKey, gatewayKey string) bool {
	b, err := hex.DecodeString(hash)
	if err != nil || len(b) != sha256.Size {
		return false
	}
	return hmac.Equal(mac, proofMAC([sha256.Size]byte(b), nodeKey, gatewayKey))
}

// quote quotes the beginning of s for an error.
func quote(s string) string { return words.QuoteStart(s, 80) }
