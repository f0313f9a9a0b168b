package keys_test

import (
	"fmt"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session/keys"
)

func Example() {
	// A program asks for application cursor keys and for brackets around
	// pasted text.
	var d keys.Detector
	fmt.Fprint(&d, "\x1b[?1;2004hmenu")

	typed, err := keys.Encode(keys.Request{Literal: "ls -l", Keys: []string{"Up", "C-Right", "Entre"}}, keys.Options{Cursor: d.Cursor()})
	if err != nil {
		fmt.Println(err, corral.Hint(err))
		return
	}
	fmt.Printf("%q\n", typed.Data)
	fmt.Println(typed.Warnings)

	pasted, err := keys.Paste("two\nlines", keys.PasteOptions{Plain: !d.BracketedPaste()})
	if err != nil {
		fmt.Println(err, corral.Hint(err))
		return
	}
	fmt.Printf("%q\n", pasted)
	// Output:
	// "ls -l\x1bOA\x1b[1;5CEntre"
	// [Key 3 ("Entre") is not the name of a key; it was typed as text. Did you mean Enter?]
	// "\x1b[200~two\nlines\x1b[201~"
}
