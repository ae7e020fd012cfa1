mod causes;
mod supervisor;
