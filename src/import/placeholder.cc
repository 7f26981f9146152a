namespace tenon {}
