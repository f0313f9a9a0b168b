package programs

// A Word is one word of a command, as far as it is known without running it.
type Word struct {
	// Text is the value without quotes if Static, and otherwise the source text.
	Text string
	// Static: the shell passes exactly Text to the program. There is no expansion, no
	// glob, no brace, no tilde.
	Static bool
	// Prefix is the certain beginning of the value; Text if Static. If the word may
	// become no word, or several, it is their common beginning.
	Prefix string

	At int // its number in its command, from 1; 0: it is not a word of the command
}

// Literal is a word that stands for itself.
func Literal(s string) Word { return Word{Text: s, Static: true, Prefix: s} }

// Literals are words that stand for themselves.
func Literals(args ...string) []Word {
	words := make([]Word, len(args))
	for i, a := range args {
		words[i] = Literal(a)
	}
	return words
}

// MayBeOption reports whether the program could read the word as an option.
func (w Word) MayBeOption() bool {
	return w.Prefix == "" && !w.Static || len(w.Prefix) > 0 && w.Prefix[0] == '-'
}
