package session

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// Words that are hard to mistake for each other.
const (
	adjectives = "amber ample bold brave brisk broad calm clear coral cosy crisp dapper deft eager early fair fleet fluent fresh gentle glad golden grand hardy honest humble jolly keen kind lively lucid lunar mellow merry mild modest neat nimble noble olive placid plain polar proud quick quiet rapid ready rosy rustic sage sandy silent solar solid spry steady sunny swift tidy vivid warm wise witty"
	nouns      = "acorn alder anchor apple aspen badger basin beacon birch bison brook cedar clover comet condor creek crane delta dune eagle ember falcon fern finch fjord forest glade harbor hawk heron hazel island ivory jasper juniper kestrel lagoon lark lemon linden maple marten meadow mesa moss otter owl pebble pine plover prairie quartz raven reef ridge river robin sparrow spruce stone thistle tulip walnut willow"
)

var (
	adjectiveList = strings.Fields(adjectives)
	nounList      = strings.Fields(nouns)
)

// NewID returns two words that people recognise, and 40 bits that make the ID
// unguessable.
func NewID() string {
	var b [7]byte
	_, _ = rand.Read(b[:]) // it never fails
	word := func(list []string, n byte) string { return list[int(n)%len(list)] }
	tail := strings.ToLower(base32.StdEncoding.EncodeToString(b[2:]))
	return word(adjectiveList, b[0]) + "-" + word(nounList, b[1]) + "-" + tail
}
