complete -c dio -s h -l help -d 'Print help'
complete -c dio -s V -l version -d 'Print version'
