// Package keys turns an agent's keys and text into the bytes that a program on a
// terminal reads, as xterm sends them. It watches a program's output for the modes that
// those bytes depend on.
//
//   - [Encode]: key names with modifiers, text and bytes in hexadecimal.
//   - [Paste]: text as pasted in one piece, which cannot end the paste itself.
//   - [Detector]: which modes a program has switched on.
//   - [CursorQueries]: finds the requests for the cursor's position.
//
// # Key names
//
// Names are those of tmux's send-keys, in any case:
//
//	Enter Return  Tab  BTab  Space  Escape Esc  BSpace Backspace
//	Up Down Left Right  Home End
//	PageUp PgUp PPage   PageDown PgDn NPage
//	Insert IC   Delete Del DC
//	F1 … F20
//	KP0 … KP9  KP/ KP* KP- KP+ KP. KPEnter
//
// and every single character, which stands for itself. A name may follow
// modifiers, in any order: C- or ^ (Ctrl), M- (Alt) and S- (Shift). White space
// around a name is ignored. An empty name is no key and no mistake.
//
// A token that is not the name of a key is typed as text, as in tmux, so that "ls",
// "Enter" works. A [Result] has a warning if the token has modifiers or looks like a
// mistaken name ("C-foo", "Ctrl+C", "Entre"). [Options].Strict makes every warning an
// error.
//
// # Bytes
//
// Keys of the cursor, Home and End depend on the program's cursor key mode;
// others do not. With modifiers, they and the keys of the editing block and the
// function keys have xterm's parameter 1 + (Shift 1, Alt 2, Ctrl 4):
// "C-Right" is ESC [ 1 ; 5 C, "M-Delete" is ESC [ 3 ; 3 ~, "S-F5" is
// ESC [ 15 ; 2 ~. Home and End are ESC [ 1 ~ and ESC [ 4 ~, as tmux and screen
// have them. F13 to F20 are those of a VT220; a program that goes by xterm's
// terminfo expects "S-F1" to "S-F8". The keypad is always in application mode.
//
// Ctrl makes the control character that X11 makes of a character: for @ to ~ and Space
// the low five bits; "C-2" to "C-8" are NUL, ESC, FS, GS, RS, US and DEL; "C-/" is US;
// "C-?" is DEL. Alt puts ESC before the key. If a terminal has no bytes for a modifier,
// as in "C-Enter" or "S-1", the modifier is left out with a warning.
//
// Sources: "XTerm Control Sequences" (PC-style and VT220-style function keys,
// DECCKM, bracketed paste mode), the section KEY BINDINGS of the tmux manual,
// and the terminfo entries xterm, tmux and vt220.
package keys
