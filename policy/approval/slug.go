package approval

import (
	"crypto/rand"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// The words of slugs: short, easy to say, and easy to tell apart.
var (
	firstWords = strings.Fields(`amber bold brave brisk calm clear cool crisp dark deep early eager fair fast fine
		firm fond free fresh glad gold good grand green happy honest keen kind large late light live lucky mellow mild
		neat new nice noble old open pale plain proud pure quick quiet rapid rare ready red rich ripe round sharp shy
		silver sleek slow smart soft solid steady still strong sunny sweet swift tall tidy tiny true vast warm wide
		wild wise young`)
	secondWords = strings.Fields(`acorn anchor apple aspen badger bay beach bear birch bird bloom boat breeze bridge brook
		canyon cedar cliff cloud comet coral crane creek daisy dawn delta dove dune eagle elm falcon fern field finch
		fjord forest fox garden glade grove harbor hawk hazel heron hill island ivy jade lake lark leaf lily lion lotus
		maple marsh meadow moon moss oak olive orchid otter owl palm pearl pebble pine planet plum pond poppy rain raven
		reef ridge river robin rose sage sail shell shore sky snow spruce star stone storm swan thistle tiger trail tulip
		valley violet wave willow wind wolf wren`)
)

// newSlug makes a slug that is not taken.
func newSlug(taken func(string) bool) string {
	for digits := int64(100); ; digits *= 10 {
		for range 100 {
			slug := firstWords[random(int64(len(firstWords)))] + "-" + secondWords[random(int64(len(secondWords)))] +
				"-" + strconv.FormatInt(random(digits), 10)
			if !taken(slug) {
				return slug
			}
		}
	}
}

// isSlug reports whether a slug may have been made by newSlug.
func isSlug(s string) bool {
	words := strings.Split(s, "-")
	return len(words) == 3 && slices.Contains(firstWords, words[0]) && slices.Contains(secondWords, words[1]) &&
		len(words[2]) > 0 && len(words[2]) <= 9 && strings.Trim(words[2], "0123456789") == ""
}

func random(below int64) int64 {
	n, err := rand.Int(rand.Reader, big.NewInt(below))
	if err != nil {
		panic(err) // never: see package crypto/rand
	}
	return n.Int64()
}
