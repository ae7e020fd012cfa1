mod both;
mod large_file;
