package vfork

const getrlimit = 97 // the number of the system call
