package runshell

// disagreements are the vectors of which the answer is another here, and why.
var disagreements = map[string]string{}

// notApplicable are vectors about what this tool does not have.
var notApplicable = map[string]string{}
