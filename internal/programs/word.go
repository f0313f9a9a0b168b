package programs

// A Word is one word of a command, as far as it can be told without running it.
type Word struct {
	// Text is the value after quotes are removed if Static, and else the
	// source text.
	Text string
	// Static: the shell hands exactly Text to the program, and nothing can
	// change that: no expansion, no glob, no brace, no tilde.
	Static bool
	// Prefix is what the word's value is sure to begin with; Text if Static.
	// A word that may be none, or several, has those of all.
	Prefix string

	At int // which word of its command it is, from 1; 0: none
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
